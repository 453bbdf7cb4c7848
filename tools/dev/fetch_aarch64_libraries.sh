#!/usr/bin/env bash
# Fetches Debian's arm64 packages of the libraries we link into build-aarch64-libraries: nothing outside the checkout is changed
# and no root is needed. Does nothing when they are there.
#
#   tools/dev/fetch_aarch64_libraries.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Header-only libraries serve every architecture and come with tools/install_dependencies.sh build; Python's headers do not.
python=$(python3 -c 'import sys; print("libpython%d.%d-dev" % sys.version_info[:2])')
packages=(libdeflate-dev zlib1g-dev libexpat1-dev libyaml-cpp-dev libpcre2-dev libsqlite3-dev libgtest-dev libgmock-dev "$python")

libraries=$repository/build-aarch64-libraries
[ "$(cat "$libraries/.complete" 2>/dev/null)" != "${packages[*]}" ] || exit 0

say "fetching the arm64 libraries"
rm -rf "$libraries"
state=$libraries/apt
mkdir -p "$state/lists/partial" "$state/cache/archives/partial" "$state/packages"
: >"$state/status"
# A private view of the archive in which arm64 is the only architecture; sources and keys are the system's.
options=(-o APT::Architecture=arm64 -o APT::Architectures=arm64 -o "Dir::State=$state" -o "Dir::State::lists=$state/lists"
  -o "Dir::State::status=$state/status" -o "Dir::Cache=$state/cache" -o APT::Sandbox::User=root)
apt-get "${options[@]}" -qq update || fail "apt-get update for arm64 failed; its messages stand above"
(cd "$state/packages" && apt-get "${options[@]}" -qq download "${packages[@]}") \
  || fail "the arm64 packages could not be fetched" "needed: ${packages[*]}"
for package in "$state/packages"/*.deb; do
  dpkg-deb -x "$package" "$libraries"
done
rm -rf "$state"
printf '%s' "${packages[*]}" >"$libraries/.complete"
