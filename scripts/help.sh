# Sourced by scripts: -h or --help as the first word prints the comment that a script begins with, and ends it.
#   at_most NUMBER "$@"     ends a script that was given more words than it takes, for they would do nothing
#   needs_value "$@"        ends a script whose next word is an option without a value; --mpi, --configure-only need none
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
    echo "${0##*/}: $1 needs a value, or is no option; see --help" >&2
    exit 2
  fi
}
