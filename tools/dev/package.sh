#!/usr/bin/env bash
# Makes what people install without a compiler, in build-package/: a wheel for every CPython, a Debian package, and an archive to
# unpack anywhere.
#
#   tools/dev/package.sh [--aarch64] [--try]
#
#   --aarch64   cross-compiles for aarch64 instead of building for this machine
#   --try       installs and uses each in bare Debian roots (tools/dev/try_packages.sh)
#
# Equal sources make equal packages: times in them are that of the commit, or SOURCE_DATE_EPOCH.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

machine=$(uname -m) try=0
while [ $# -gt 0 ]; do
  case $1 in
    --aarch64) machine=aarch64 ;;
    --try) try=1 ;;
    -h | --help) sed -n '2,10p' "$0" | sed 's/^# \{0,1\}//'; exit 0 ;;
    *) fail "unknown argument $1" "known: --aarch64 --try" ;;
  esac
  shift
done

tools/install_dependencies.sh build
tools/install_dependencies.sh page
tools/install_dependencies.sh package || say "going on without"
tools/dev/build_web.sh
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || date +%s)}
export SOURCE_DATE_EPOCH

# The folders that tests are run in: what is packed is what was judged.
preset=release build=build
if [ "$machine" != "$(uname -m)" ]; then
  tools/install_dependencies.sh "$machine"
  tools/dev/fetch_aarch64_libraries.sh
  preset=aarch64 build=build-aarch64
fi
say "building in $build"
# A build folder that has the tests switched on keeps them.
options=()
[ -e "$build/build.ninja" ] || options+=(-DMSPROBE_TESTS=OFF)
cmake --preset "$preset" "${options[@]}" >/dev/null || fail "cmake could not configure; its messages stand above"
build_preset "$preset" msprobe msprobe_python
say "packing"
work=build-package/work-$machine
rm -rf "$work"
mkdir -p "$work"
cpack --config "$build/CPackConfig.cmake" -B "$work" >"$work/cpack.log" 2>&1 \
  || { tail -20 "$work/cpack.log" >&2; fail "cpack failed; the end of $work/cpack.log stands above"; }
# Packages of another version or C library would be installed together with these.
case $machine in x86_64) debian=amd64 ;; aarch64) debian=arm64 ;; *) debian=$machine ;; esac
rm -f build-package/msprobe-*_"$machine".whl build-package/msprobe-*-linux-"$machine".tar.gz build-package/msprobe_*_"$debian".deb
made=()
for package in "$work"/*.whl "$work"/*.deb "$work"/*.tar.gz; do
  [ -f "$package" ] || fail "cpack reported success, but there is no ${package##*/}"
  mv -f "$package" build-package/
  made+=("build-package/${package##*/}")
done
if command -v lintian >/dev/null; then
  say "lintian"
  lintian --fail-on error "${made[1]}" || fail "lintian finds errors"
fi
[ "$try" = 0 ] || tools/dev/try_packages.sh "$machine"
say "made:"
ls -l "${made[@]}" | awk '{ printf "%6.1f MB  %s\n", $5 / 1e6, $NF }'
