# Help for scripts that source this file: -h or --help as the first word prints the script's first comment and exits.
#   at_most NUMBER "$@"     ends a script that was given more words than it uses, because they would have no effect
#   needs_value "$@"        ends a script whose next word is an option without its value (not --mpi, --configure-only)
# shellcheck shell=bash
case ${1:-} in
  -h | --help)
    sed -n '1d; /^#/!q; s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac

at_most() {
  local most=$1
  shift
  (($# > most)) || return 0
  echo "${0##*/}: '${*:most + 1:1}' is one argument too many; see --help" >&2
  exit 2
}

needs_value() {
  if [[ $1 == --* && ! $1 =~ ^--(mpi|configure-only|help)$ && -z ${2:-} ]]; then
    echo "${0##*/}: $1 needs a value, or is not an option; see --help" >&2
    exit 2
  fi
}
