#!/usr/bin/env bash
# Holds a change that must not be seen to that: results, messages, help, manual pages, completions and pages before and after it.
#
#   tests/freeze.sh record                 keeps the program and the Python package of build/ as they are now
#   tests/freeze.sh compare [ARG...]       calls both with everything that the tests of the command line, the golden cases and
#                                          aarch64/direct_calls.py call the program with, and names every byte that differs
#
# ARG: of aarch64/same_results.py, such as --only REGEX. $MSPROBE_FROZEN is where the kept program lies (default build-frozen).
. "$(dirname "${BASH_SOURCE[0]}")/../tools/dev/common.sh"

frozen=${MSPROBE_FROZEN:-build-frozen}
case ${1:-} in
  record)
    rm -rf "$frozen"
    mkdir -p "$frozen"
    cp -a build/bin build/python "$frozen/"
    git rev-parse HEAD >"$frozen/commit"
    say "kept build/ at $(git rev-parse --short HEAD) in $frozen"
    ;;
  compare)
    shift
    [ -x "$frozen/bin/msprobe" ] || fail "$frozen holds no program" "tests/freeze.sh record, before the change"
    say "comparing with $(cut -c1-8 "$frozen/commit")"
    /usr/bin/python3 tests/aarch64/same_results.py "$frozen" build --tests build "$@"
    ;;
  *) sed -n '4,9p' "$0" | sed 's/^# \{0,1\}//'; exit 2 ;;
esac
