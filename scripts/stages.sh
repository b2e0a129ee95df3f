# Stages for scripts/test and .ci/run, which source this file. Each has a name and is timed, and a failing stage does
# not hide the results of others.
#
#   stage NAME COMMAND…      runs it; its output is shown when it fails, and kept in build/reports/NAME.log
#   alongside NAME COMMAND…  starts it in parallel with the stages that follow, for a stage that mostly waits
#   alongside_ended          waits for the parallel stages, and shows each as `stage` does
#   closing                  prints each stage's verdict, and 'N passed, N failed, N skipped'; its status is the verdict
#
# A command may write a JUnit file build/reports/NAME.xml, whose tests are counted; otherwise it counts as one test.
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

alongside=()
alongside() {
  stage "$@" >"$reports/$1.alongside" 2>&1 &
  alongside+=("$! $1")
}

alongside_ended() {
  local each name
  for each in "${alongside[@]}"; do
    name=${each#* }
    wait "${each%% *}" || true
    cat "$reports/$name.alongside"
    # A killed stage has not noted a verdict, which counts as failed.
    grep -q "^$name " "$reports/stages" || printf '%s failed 0.0\n' "$name" >>"$reports/stages"
  done
}

closing() {
  echo
  python3 "$root/scripts/count-tests" "$reports"
}
