#!/usr/bin/env bash
# Cross-compiles the rooms below for aarch64 and runs their unit tests under qemu.
#
#   tools/dev/test_aarch64.sh [ROOM...]      default: base tensor kernels json report io dump
#
# Fetches Debian's arm64 archives of the libraries we link into build-aarch64-libraries: nothing outside the checkout is
# changed and no root is needed for it. The cross compiler and qemu come from tools/install_dependencies.sh aarch64.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

rooms=("$@")
[ $# -gt 0 ] || rooms=(base tensor kernels json report io dump)

tools/install_dependencies.sh build test aarch64

libraries=$repository/build-aarch64-libraries
fetch_libraries() {
  local state=$libraries/apt
  mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$state/packages"
  : >"$state/status"
  # A private view of the archive in which arm64 is the only architecture; sources and keys are the system's.
  local options=(-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State=$state" -o "Dir::State::lists=$state/lists"
    -o "Dir::State::status=$state/status" -o "Dir::Cache=$state/cache" -o APT::Sandbox::User=root)
  apt-get "${options[@]}" -qq update || fail "apt-get update for arm64 failed; its messages stand above"
  (cd "$state/packages" && apt-get "${options[@]}" -qq download "$@") \
    || fail "the arm64 packages could not be fetched" "needed: $*"
  local package
  for package in "$state/packages"/*.deb; do
    dpkg-deb -x "$package" "$libraries"
  done
  rm -rf "$state"
  touch "$libraries/.complete"
}
if [ ! -e "$libraries/.complete" ]; then
  say "fetching the arm64 libraries"
  rm -rf "$libraries"
  fetch_libraries libdeflate-dev zlib1g-dev libexpat1-dev libyaml-cpp-dev libpcre2-dev libsqlite3-dev libgtest-dev libgmock-dev
fi

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
