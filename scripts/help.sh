# Sourced by scripts: -h or --help as the first word prints the comment that a script begins with, and ends it.
# shellcheck shell=bash
case ${1:-} in
  -h | --help)
    sed -n '1d; /^#/!q; s/^# \{0,1\}//p' "$0"
    exit 0
    ;;
esac
