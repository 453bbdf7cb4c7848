#!/usr/bin/env bash
# Makes a release in build-release/msprobe-VERSION/: packages for x86-64 and aarch64, each installed and used in bare roots, with checksums
# (SHA256SUMS), a bill of materials (SPDX) and the notes of CHANGELOG.md. Publishing them is left to you.
#
#   tools/release.sh [--rehearsal] [--made] [--only-this-machine] [--site]
#
#   --rehearsal           also with changes that are not committed, or a version that CHANGELOG.md does not date yet
#   --made                take the packages in build-package/ as they are: no build, no trial in bare roots
#   --only-this-machine   no packages for another architecture
#   --site                also the documents as a site, msprobe-VERSION-site.tar.gz (tools/dev/build_site.sh)
#
# The version is that of CMakeLists.txt. Equal sources make equal files: all times in them are that of the commit, or SOURCE_DATE_EPOCH.
. "$(dirname "${BASH_SOURCE[0]}")/dev/common.sh"

rehearsal=0 made=0 only_this=0 with_site=0
while [ $# -gt 0 ]; do
  case $1 in
    --rehearsal) rehearsal=1 ;;
    --made) made=1 ;;
    --only-this-machine) only_this=1 ;;
    --site) with_site=1 ;;
    -h | --help) sed -n '2,13p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
    *) fail "unknown argument $1" "known: --rehearsal --made --only-this-machine --site" ;;
  esac
  shift
done

version=$(sed -n 's/^project(msprobe VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
[ -n "$version" ] || fail "CMakeLists.txt states no version"
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH

# The notes: what stands below the heading of this version.
heading=$(grep -E "^## ${version//./\\.}( |\$)" CHANGELOG.md || true)
[ -n "$heading" ] || fail "CHANGELOG.md has no section for $version" "## $version (YYYY-MM-DD)"
if [ "$rehearsal" = 0 ]; then
  [[ $heading =~ \([0-9]{4}-[0-9]{2}-[0-9]{2}\)$ ]] || fail "CHANGELOG.md does not date $version: $heading" "## $version (YYYY-MM-DD), or --rehearsal"
  [ -z "$(git status --porcelain)" ] || fail "there are changes that are not committed" "commit them, or --rehearsal"
fi

if [ "$made" = 0 ]; then
  tools/dev/package.sh --try
  [ "$only_this" = 1 ] || [ "$(uname -m)" = aarch64 ] || tools/dev/package.sh --aarch64
fi
machines=("$(uname -m)")
[ "$only_this" = 1 ] || [ "$(uname -m)" = aarch64 ] || machines+=(aarch64)
packages=()
for machine in "${machines[@]}"; do
  case $machine in x86_64) debian=amd64 ;; aarch64) debian=arm64 ;; *) debian=$machine ;; esac
  for package in build-package/msprobe-"$version"-*_"$machine".whl build-package/msprobe-"$version"-linux-"$machine".tar.gz \
                 build-package/msprobe_"$version"_"$debian".deb; do
    [ -f "$package" ] || fail "there is no $package" "tools/dev/package.sh$([ "$machine" = "$(uname -m)" ] || echo " --$machine") makes it"
    packages+=("$package")
  done
done

release=build-release/msprobe-$version
rm -rf "$release"
mkdir -p "$release"
cp -p "${packages[@]}" "$release/"
if [ "$with_site" = 1 ]; then
  tools/dev/build_site.sh
  tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C build-site -czf "$release/msprobe-$version-site.tar.gz" \
      --transform "s|^site|msprobe-$version-site|" site
fi
awk -v heading="$heading" '$0 == heading { inside = 1; next } /^## / { inside = 0 } inside' CHANGELOG.md | sed '/./,$!d' >"$release/NOTES.md"
say "bill of materials"
python3 tools/dev/make_sbom.py "$version" "$release"/*.whl "$release"/*.deb "$release"/*.tar.gz >"$release/msprobe-$version.spdx.json"
(cd "$release" && sha256sum -- * >.sums && mv .sums SHA256SUMS && sha256sum --quiet --strict --check SHA256SUMS) || fail "the checksums do not hold"

say "made: $release"
(cd "$release" && ls -l | awk 'NR > 1 { printf "%8.1f kB  %s\n", $5 / 1e3, $NF }')
say "next: git tag -a v$version -m 'msprobe $version', and publish these files with NOTES.md"
