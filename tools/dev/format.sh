#!/usr/bin/env bash
# Formats our C++ with clang-format 14 (other versions disagree in details).
#
#   tools/dev/format.sh            rewrites what is off
#   tools/dev/format.sh --check    changes nothing, fails when something is off
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

formatter=$(command -v clang-format-14 || command -v clang-format) \
  || fail "clang-format is not installed" "tools/install_dependencies.sh develop"
"$formatter" --version | grep -q 'version 14\.' || fail "$formatter is not version 14" "tools/install_dependencies.sh develop"

mapfile -t files < <(find src include tests -name '*.h' -o -name '*.cpp' | sort)
case ${1:-} in
  "") "$formatter" -i "${files[@]}" && say "formatted ${#files[@]} files" ;;
  --check)
    "$formatter" --dry-run -Werror --ferror-limit=1 "${files[@]}" || fail "files above are not formatted" "tools/dev/format.sh"
    say "format: ${#files[@]} files as they should be"
    ;;
  *) fail "unknown argument $1" "known: --check" ;;
esac
