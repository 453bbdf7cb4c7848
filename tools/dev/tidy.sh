#!/usr/bin/env bash
# Runs clang-tidy 14 with the checks of .clang-tidy. Slow: a few seconds of one core per file.
#
#   tools/dev/tidy.sh              every source file of src/
#   tools/dev/tidy.sh FILE...      these files
#   tools/dev/tidy.sh --since REF  files of src/ changed since a commit
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

tidy=$(command -v clang-tidy-14 || command -v clang-tidy) \
  || fail "clang-tidy is not installed" "tools/install_dependencies.sh develop"
# A folder of its own: g++'s generated flags are fine for clang, but the list must match the tree as it is now.
folder=build-tidy
cmake -S . -B "$folder" -G Ninja -DMSPROBE_TESTS=OFF -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_COMPILER=clang++-14 >/dev/null \
  || fail "cmake could not configure $folder"

case ${1:-} in
  # What is compiled on this machine: kernels of other processors cannot even be parsed.
  "") mapfile -t files < <(sed -n "s|^ *\"file\": \"$PWD/\(src/.*\)\",*$|\1|p" "$folder/compile_commands.json" | sort) ;;
  --since)
    [ $# -eq 2 ] || fail "--since needs a commit"
    mapfile -t files < <(git diff --name-only --diff-filter=d "$2" -- 'src/*.cpp')
    ;;
  *) files=("$@") ;;
esac
[ ${#files[@]} -gt 0 ] || { say "tidy: no files to look at"; exit 0; }
# Embedded resources are generated while building; the checks need them only as declarations.
printf '%s\0' "${files[@]}" \
  | xargs -0 -n 1 -P "$(build_jobs)" "$tidy" -p "$folder" --quiet --warnings-as-errors='*' 2> >(grep -v 'warnings generated' >&2) \
  || fail "clang-tidy has findings; they stand above"
say "tidy: ${#files[@]} files without findings"
