#!/usr/bin/env bash
# Installs the Debian 12 packages that msprobe needs. The lists below are the only ones.
#
#   tools/install_dependencies.sh [SET...]      sets: build (default) test page browser develop bench fuzz aarch64 torch2 package site
#   tools/install_dependencies.sh --list SET    the names of its packages, and nothing else
#
# Packages that are installed already are left alone; nothing is fetched when none is missing. Needs root or sudo otherwise.
. "$(dirname "${BASH_SOURCE[0]}")/dev/common.sh"

declare -A packages=(
  # Compiler, build tools and the libraries of docs/design/dependencies.md.
  [build]="g++ cmake ninja-build libcli11-dev libfmt-dev libspdlog-dev rapidjson-dev nlohmann-json3-dev libyaml-cpp-dev libtomlplusplus-dev libhwy-dev
    zlib1g-dev libdeflate-dev libexpat1-dev libxxhash-dev libpcre2-dev libsqlite3-dev libevent-dev libssl-dev python3-dev"
  # Unit tests; what we write is judged by implementations that are not ours: openpyxl for workbooks, nlohmann for JSON.
  # The Python shim is tried with the real PyTorch, work shared out over processes with a real mpirun, recheck on the data of
  # ONNX's operator tests, the Python API with and without pandas, its plugin with pytest.
  [test]="libgtest-dev libgmock-dev python3 python3-openpyxl python3-torch python3-numpy python3-mpmath python3-pytest python3-pandas
    python3-pip python3-venv openmpi-bin openssl iproute2 strace libonnx-testdata"
  # What tools/dev/build_web.sh makes the page of `msprobe monitor report` with, and a browser to try it in. A command that is
  # there under another package's name (PACKAGE:COMMAND) will do.
  [page]="nodejs:node npm:npm ca-certificates"
  [browser]="chromium:chromium"
  # Format, lint, quicker rebuilds.
  [develop]="git clang-14 clang-format-14 clang-tidy-14 ccache"
  [bench]="libbenchmark-dev python3 python3-numpy"
  # libFuzzer and the sanitizers of clang; those of g++ come with the compiler.
  [fuzz]="clang-14 libclang-rt-14-dev"
  # Cross compiler and emulator. Libraries for arm64 are fetched by tools/dev/fetch_aarch64_libraries.sh.
  [aarch64]="g++-aarch64-linux-gnu qemu-user"
  # Makes the root of tools/dev/test_torch2.sh.
  [torch2]="debootstrap"
  # What tools/dev/package.sh judges its packages with: Debian's checker, and roots of other releases.
  [package]="lintian debootstrap"
  # What tools/dev/build_site.sh makes a site of docs/ with.
  [site]="python3 python3-venv python3-pip"
)
sets="build test page browser develop bench fuzz aarch64 torch2 package site"

if [ "${1:-}" = --list ]; then
  [ -n "${packages[${2:-}]:-}" ] || fail "--list needs a package set" "sets: $sets"
  printf '%s\n' ${packages[$2]} | cut -d: -f1
  exit 0
fi

command -v dpkg-query >/dev/null && command -v apt-get >/dev/null \
  || fail "this script speaks Debian's package tools only (dpkg-query, apt-get), and they are not here" \
          "install the packages listed in $0 with your system's own tools"

native=$(dpkg --print-architecture)
# A package of another architecture under the same name does not count.
is_installed() {
  dpkg-query -W -f='${db:Status-Status} ${Architecture}\n' "$1" 2>/dev/null | grep -qxE "installed ($native|all)"
}

missing=()
for set_name in "${@:-build}"; do
  [ -n "${packages[$set_name]:-}" ] || fail "there is no package set \"$set_name\"" "sets: $sets"
  for entry in ${packages[$set_name]}; do
    package=${entry%%:*}
    { [ "$package" != "$entry" ] && command -v "${entry#*:}" >/dev/null; } || is_installed "$package" || missing+=("$package")
  done
done
if [ ${#missing[@]} -eq 0 ]; then
  say "packages for ${*:-build}: all installed"
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || fail "${#missing[@]} packages are missing, and this is neither root nor is sudo installed" \
                                     "as root: apt-get install ${missing[*]}"
  as_root=(sudo)
fi
say "installing ${#missing[@]} packages for ${*:-build}: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Another apt at work (unattended upgrades) is waited for; answers are never asked for.
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 -y "$@" >"$log" 2>&1
}
if ! apt update; then
  grep -E '^(E|W|Err)' "$log" | tail -5 >&2 || true
  fail "apt-get update failed; its messages stand above" "check the network and /etc/apt/sources.list"
fi
if ! apt install --no-install-recommends "${missing[@]}"; then
  grep -E '^(E|W|Err|dpkg)' "$log" | tail -5 >&2 || true
  fail "apt-get install failed; its messages stand above" "is this Debian 12 (bookworm)? The names of the packages are Debian's"
fi
for package in "${missing[@]}"; do
  is_installed "$package" || fail "apt-get reported success, but $package is not installed"
done
