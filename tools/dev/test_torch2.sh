#!/usr/bin/env bash
# Runs the tests of the Python shim (tests/python/torch, tests/python/frameworks/torch) under PyTorch 2, in a Debian 13 root of
# its own. Answers for docs/compatibility.md are left in build/framework_results (tests/frameworks/results.py --add).
#
#   tools/dev/test_torch2.sh [FILE...]      default: every *_test.py of these folders
#
# Where MSPROBE_TORCH2_PYTHON names a Python with another PyTorch 2, those of tests/python/torch then run with it, too.
# The programs are those of build/: they were made for Debian 12 and run there too, as on a user's newer host. The root is made
# once (about 1.5 GB, some minutes; needs root) in $MSPROBE_TORCH2_ROOT, default ~/.cache/torch2-root.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. tools/dev/debian_roots.sh

root=${MSPROBE_TORCH2_ROOT:-$HOME/.cache/torch2-root}
golden=${MSPROBE_GOLDEN:-$(dirname "$repository")/shared/golden}

# One thread, as tests/python/CMakeLists.txt asks for: an interpreter that NumPy gave threads is not copied for every script.
variables=(PYTHONPATH="$repository/build/python" MSPROBE="$repository/build/bin/msprobe" MSPROBE_GOLDEN="$golden" OMP_NUM_THREADS=1)

run_inside() {
  local folders=("$repository")
  [ ! -d "$golden" ] || folders+=("$golden")
  run_in_root "$root" "${folders[@]}" -- "${variables[@]}" MSPROBE_FRAMEWORK_RESULTS="$repository/build/framework_results" "$@"
}

# test_with RUNNER... -- FILE...
test_with() {
  local runner=() file
  while [ "$1" != -- ]; do runner+=("$1"); shift; done
  shift
  say "$("${runner[@]}" -c 'import sys, torch; print("Python", sys.version.split()[0], "PyTorch", torch.__version__)')"
  for file in "$@"; do
    say "running $file"
    "${runner[@]}" "$file" || fail "$file failed under PyTorch 2; again: tools/dev/test_torch2.sh $file"
  done
}

[ "$(id -u)" = 0 ] || fail "entering another root needs root"
[ -d build/python/msprobe ] || fail "build/python is missing" "tools/test.sh builds it"
tools/install_dependencies.sh torch2
make_root "$root" trixie "$(dpkg --print-architecture)" python3-torch python3-numpy
files=("$@")
[ $# -gt 0 ] || files=(tests/python/torch/*_test.py tests/python/frameworks/torch/*_test.py)
rm -rf build/framework_results
mkdir -p build/framework_results
test_with run_inside python3 -- "${files[@]}"
python3 tests/frameworks/results.py --against build/framework_results
if [ -n "${MSPROBE_TORCH2_PYTHON:-}" ]; then
  [ $# -gt 0 ] || files=(tests/python/torch/*_test.py)
  test_with env "${variables[@]}" "$MSPROBE_TORCH2_PYTHON" -- "${files[@]}"
fi
