#!/usr/bin/env bash
# Fetches Debian's arm64 packages: the libraries we link into build-aarch64-libraries, and into build-aarch64-root what programs run
# with under qemu, which is the C library and Python. Nothing outside the checkout is changed and no root is needed. Does nothing
# when they are there.
#
#   tools/dev/fetch_aarch64_libraries.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Header-only libraries serve every architecture and come with tools/install_dependencies.sh build; Python's headers do not.
python=$(python3 -c 'import sys; print("libpython%d.%d-dev" % sys.version_info[:2])')
linked=(libdeflate-dev zlib1g-dev libexpat1-dev libyaml-cpp-dev libpcre2-dev libsqlite3-dev libevent-dev libssl-dev libgtest-dev libgmock-dev "$python")
run=(libc6 libstdc++6 python3 libsqlite3-0)

# has FOLDER PACKAGE...: whether the folder is complete and holds all of these.
has() {
  local folder=$1 package
  shift
  [ -e "$folder/.complete" ] || return 1
  for package in "$@"; do grep -qxF "$package" "$folder/.complete" || return 1; done
}

# unpack FOLDER HOW PACKAGE...: HOW is `download`, for these packages alone, or `install`, for all that they depend on as well.
unpack() {
  local folder=$1 how=$2
  shift 2
  ! has "$folder" "$@" || return 0
  say "fetching arm64 packages into ${folder##*/}"
  rm -rf "$folder"
  local state=$folder/apt
  mkdir -p "$state/lists/partial" "$state/cache/archives/partial"
  : >"$state/status"
  # A private view of the archive in which arm64 is the only architecture; sources and keys are the system's.
  local options=(-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State=$state" -o "Dir::State::lists=$state/lists"
    -o "Dir::State::status=$state/status" -o "Dir::Cache=$state/cache" -o APT::Sandbox::User=root -o Debug::NoLocking=1)
  apt-get "${options[@]}" -qq update || fail "apt-get update for arm64 failed; its messages stand above"
  if [ "$how" = download ]; then
    (cd "$state/cache/archives" && apt-get "${options[@]}" -qq download "$@")
  else
    apt-get "${options[@]}" -qq --yes --no-install-recommends --download-only install "$@" >"$state/log" 2>&1 || { tail -5 "$state/log" >&2; false; }
  fi || fail "the arm64 packages could not be fetched" "needed: $*"
  local package
  for package in "$state/cache/archives"/*.deb; do
    dpkg-deb -x "$package" "$folder"
  done
  rm -rf "$state"
  printf '%s\n' "$@" >"$folder/.complete"
}

unpack "$repository/build-aarch64-libraries" download "${linked[@]}"
unpack "$repository/build-aarch64-root" install "${run[@]}"
