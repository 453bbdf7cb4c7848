#!/usr/bin/env bash
# Cross-compiles the rooms below for aarch64 and runs their unit tests under qemu.
#
#   tools/dev/test_aarch64.sh [ROOM...]      default: base tensor kernels json report io dump
#
# The cross compiler and qemu come from tools/install_dependencies.sh aarch64, libraries from tools/dev/fetch_aarch64_libraries.sh.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

rooms=("$@")
[ $# -gt 0 ] || rooms=(base tensor kernels json report io dump)

tools/install_dependencies.sh build test aarch64

tools/dev/fetch_aarch64_libraries.sh

say "configuring for aarch64"
cmake --preset aarch64 >/dev/null || fail "cmake could not configure the preset aarch64; its messages stand above"

targets=()
pattern=
for room in "${rooms[@]}"; do
  flat=${room//\//_}
  if ninja -C build-aarch64 -t query "${flat}_test" >/dev/null 2>&1; then
    targets+=("${flat}_test")
    pattern+="${pattern:+|}$room"
  else
    say "no tests of $room yet: left out"
  fi
done
[ ${#targets[@]} -gt 0 ] || fail "none of these rooms has unit tests: ${rooms[*]}"

say "building ${targets[*]}"
build_preset aarch64 "${targets[@]}"
say "running them under qemu"
ctest --test-dir build-aarch64 --parallel "$(nproc)" --output-on-failure --timeout 900 -R "^($pattern)\\." \
  || fail "tests failed on aarch64; again, one alone: ctest --test-dir build-aarch64 --output-on-failure -R NAME"
