#!/usr/bin/env bash
# Cross-compiles everything for aarch64, runs the unit tests under qemu, and holds what the program and the capture library write
# against what this machine's write, byte by byte. What emulation cannot show: tests/aarch64/README.md.
#
#   tools/dev/test_aarch64.sh [COMPONENT...]
#
#   COMPONENT...    only the unit tests of these components, e.g. kernels analysis/compare
#
# The cross compiler and qemu come from tools/install_dependencies.sh aarch64, everything else from
# tools/dev/fetch_aarch64_libraries.sh.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

components=("$@")
case ${1:-} in
  -h | --help) sed -n '2,10p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
  -*) fail "unknown argument $1" "known: COMPONENT..." ;;
esac

export MSPROBE_GOLDEN=${MSPROBE_GOLDEN:-$(dirname "$repository")/shared/golden}
export MSPROBE_EMULATED=1   # tests skip what qemu cannot show, and say so
# All that qemu knows, and one without what came after ARMv8.0.
processors=(max cortex-a72)
emulator=(qemu-aarch64 -L "$repository/build-aarch64-root")

tools/install_dependencies.sh build test aarch64
tools/dev/fetch_aarch64_libraries.sh
tools/dev/build_web.sh --if-possible   # what needs the page is left out otherwise

say "configuring for aarch64"
cmake --preset aarch64 -DMSPROBE_TESTS=ON >/dev/null || fail "cmake could not configure the preset aarch64; its messages stand above"

targets=() pattern=
for component in "${components[@]}"; do
  ninja -C build-aarch64 -t query "${component//\//_}_test" >/dev/null 2>&1 || fail "there are no unit tests of $component"
  targets+=("${component//\//_}_test")
  pattern+="${pattern:+|}$component"
done
say "building for aarch64: ${targets[*]:-everything}"
build_preset aarch64 "${targets[@]}"

unit_tests() {
  ctest --test-dir build-aarch64 --parallel "$(nproc)" --output-on-failure --no-label-summary --timeout 900 "$@" \
    || fail "tests failed on aarch64; again, one alone: ctest --test-dir build-aarch64 --output-on-failure -R NAME"
}
if [ ${#components[@]} -gt 0 ]; then
  say "running the unit tests of ${components[*]} under qemu"
  unit_tests -R "^($pattern)\\."
  exit 0
fi
say "running the unit tests under qemu"
unit_tests
# What may depend on the processor or on the size of its pages.
say "again, with a processor of ARMv8.0 and pages of 64 KiB"
QEMU_CPU=cortex-a72 QEMU_PAGESIZE=65536 unit_tests -R '^(kernels|tensor|base|io|capture|monitor)\.'

say "building for this machine"
cmake --preset release -DMSPROBE_TESTS=ON >/dev/null || fail "cmake could not configure the preset release; its messages stand above"
build_preset release

python=$(command -v /usr/bin/python3 || command -v python3)
say "the linked files"
linked=(build-aarch64/bin/msprobe build-aarch64/lib/libmsprobe_capture.so build-aarch64/python/msprobe/_native.abi3.so)
for test in tests/package/hardening_test.py tests/aarch64/linked_files_test.py; do
  "$python" "$test" "${linked[@]}" || fail "the linked files are not as promised"
done

for processor in "${processors[@]}"; do
  say "what the capture library writes on both machines, processor $processor"
  QEMU_CPU=$processor "$python" tests/aarch64/capture_files_test.py build build-aarch64 "${emulator[@]}" \
    || fail "the capture library writes other files on aarch64"
done

say "importing the Python shim with Debian's Python for arm64"
PYTHONPATH=build-aarch64/python "${emulator[@]}" build-aarch64-root/usr/bin/python3 -c '
import platform, msprobe, msprobe._native
print("imported by Python", platform.python_version(), "on", platform.machine())' || fail "the shim cannot be imported on aarch64"

say "what the program writes on both machines: every test of the command line, and the golden cases"
"$python" tests/aarch64/same_results.py build build-aarch64 --emulator "${emulator[*]}" --jobs "$(nproc)" \
  || fail "the program gives other results on aarch64"
