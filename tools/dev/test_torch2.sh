#!/usr/bin/env bash
# Runs the tests of the Python shim (tests/python/torch, tests/python/frameworks/torch) under PyTorch 2, in a Debian 13 root of
# its own. Answers for docs/compatibility.md are left in build/framework_results (tests/frameworks/results.py --add).
#
#   tools/dev/test_torch2.sh [FILE...]      default: every *_test.py of these folders
#
# The programs are those of build/: they were made for Debian 12 and run there too, as on a user's newer host. The root is made
# once (about 1.5 GB, some minutes; needs root) in $MSPROBE_TORCH2_ROOT, default ~/.cache/torch2-root.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. tools/dev/debian_roots.sh

root=${MSPROBE_TORCH2_ROOT:-$HOME/.cache/torch2-root}
golden=${MSPROBE_GOLDEN:-$(dirname "$repository")/shared/golden}

run_inside() {
  local folders=("$repository")
  [ ! -d "$golden" ] || folders+=("$golden")
  run_in_root "$root" "${folders[@]}" -- PYTHONPATH="$repository/build/python" MSPROBE="$repository/build/bin/msprobe" \
    MSPROBE_GOLDEN="$golden" MSPROBE_FRAMEWORK_RESULTS="$repository/build/framework_results" "$@"
}

[ "$(id -u)" = 0 ] || fail "entering another root needs root"
[ -d build/python/msprobe ] || fail "build/python is missing" "tools/test.sh builds it"
tools/install_dependencies.sh torch2
make_root "$root" trixie "$(dpkg --print-architecture)" python3-torch python3-numpy
files=("$@")
[ $# -gt 0 ] || files=(tests/python/torch/*_test.py tests/python/frameworks/torch/*_test.py)
rm -rf build/framework_results
mkdir -p build/framework_results
say "$(run_inside python3 -c 'import sys, torch; print("Python", sys.version.split()[0], "PyTorch", torch.__version__)')"
for file in "${files[@]}"; do
  say "running $file"
  run_inside python3 "$file" || fail "$file failed under PyTorch 2; again: tools/dev/test_torch2.sh $file"
done
python3 tests/frameworks/results.py --against build/framework_results
