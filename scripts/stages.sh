# Sourced by scripts/test and .ci/run: named stages, each timed, none hiding another.
#
#   stage NAME COMMAND…   runs it; its output is shown when it fails, and kept in build/reports/NAME.log
#   beside NAME COMMAND…  begins it beside the stages that follow, for one that waits more than it works
#   beside_ended          waits for those, and shows each as stage does
#   closing               prints what each stage came to, and 'N passed, N failed, N skipped'; its status is the verdict
#
# A command may leave a JUnit file build/reports/NAME.xml; its tests are counted from there, else it is one test.
# Exit code 77 means skipped; the last line of output says why.
# The caller sets $root.
# shellcheck shell=bash disable=SC2154

reports=$root/build/reports
mkdir -p "$reports"

stage() {
  local name=$1 started=${EPOCHREALTIME/[.,]/} code=0 log=$reports/$1.log verdict seconds
  shift
  rm -f "$reports/$name.xml"
  printf '== %-14s %s\n' "$name" "$(printf '%s ' "${@#"$root"/}" | cut -c1-60)"
  "$@" >"$log" 2>&1 </dev/null || code=$?
  seconds=$(LC_ALL=C awk -v a="$started" -v b="${EPOCHREALTIME/[.,]/}" 'BEGIN {printf "%.1f", (b - a) / 1e6}')
  case $code in
    0) verdict=passed ;;
    77) verdict=skipped ;;
    *) verdict=failed ;;
  esac
  if [[ $verdict == failed ]]; then
    tail -n "${ISTHMUS_LOG_LINES:-300}" "$log" | sed 's/^/   | /'
  fi
  printf '   %-14s %-8s %8s s' "$name" "$verdict" "$seconds"
  if [[ $verdict == skipped ]]; then printf '  %s' "$(tail -n 1 "$log" | cut -c1-70)"; fi
  if [[ $verdict == failed ]]; then printf '  exit code %s, %s' "$code" "${log#"$root"/}"; fi
  printf '\n'
  printf '%s %s %s\n' "$name" "$verdict" "$seconds" >>"$reports/stages"
}

beside=()
beside() {
  stage "$@" >"$reports/$1.beside" 2>&1 &
  beside+=("$! $1")
}

beside_ended() {
  local each name
  for each in "${beside[@]}"; do
    name=${each#* }
    wait "${each%% *}" || true
    cat "$reports/$name.beside"
    # One that was killed has noted nothing, and what is absent fails.
    grep -q "^$name " "$reports/stages" || printf '%s failed 0.0\n' "$name" >>"$reports/stages"
  done
}

closing() {
  echo
  python3 "$root/scripts/count-tests" "$reports"
}
