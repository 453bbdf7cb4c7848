#!/usr/bin/env bash
# From a clone on Debian 12 to a first result: installs the packages, builds the program (build/bin/msprobe) and the Python
# package beside it (build/python), and compares the example pair of docs/example (a small GPT, one layer of which was changed on
# the "npu" side). Safe to run again.
#
#   tools/quickstart.sh
. "$(dirname "${BASH_SOURCE[0]}")/dev/common.sh"
[ $# -eq 0 ] || fail "no arguments are known here, found: $*" "the two steps after this: build/bin/msprobe --help, tools/test.sh"

tools/install_dependencies.sh build
# Only `msprobe monitor report` and `--format html` need it.
tools/install_dependencies.sh page || say "going on without"
tools/dev/build_web.sh --if-possible

# A build folder that has the tests switched on (tools/test.sh) keeps them.
options=()
[ -e build/build.ninja ] || options+=(-DMSPROBE_TESTS=OFF)
say "configuring in build/"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
cmake --preset release "${options[@]}" >"$log" 2>&1 || { tail -20 "$log" >&2; fail "cmake could not configure; its messages stand above"; }
say "building build/bin/msprobe and build/python (some minutes the first time)"
build_preset release msprobe msprobe_python

example=docs/example
output=build/example_output
say "comparing the example pair: msprobe compare $example/npu $example/bench -o $output"
rm -rf "$output"
build/bin/msprobe compare "$example/npu" "$example/bench" -o "$output" \
  || fail "the comparison of the example pair ended with exit code $?"
reports=$(find "$output" -type f -name '*.xlsx' | sort)
[ -n "$reports" ] || fail "the comparison wrote no report into $output"
say "the report:"
printf '%s\n' "$reports" | sed "s|^|$repository/|"
say "next:"
cat <<'NEXT'
  export PATH=$PWD/build/bin:$PATH PYTHONPATH=$PWD/build/python   for this shell: the program, and import msprobe
  msprobe doctor                                                  what works here: PyTorch, MindSpore, accelerators
  msprobe dump -- python3 docs/example/train.py                   capture a training (needs PyTorch), or your own script
NEXT
