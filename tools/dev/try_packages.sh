#!/usr/bin/env bash
# Installs the packages of build-package/ in bare roots of Debian 12 and 13, uses them there, and removes them again.
#
#   tools/dev/try_packages.sh [--torch] [MACHINE [SUITE...]]
#
#   MACHINE    x86_64 or aarch64; this one by default
#   SUITE      releases of Debian: bookworm and trixie by default; bullseye has an older C library
#   --torch    also installs Debian's PyTorch in each root and captures a training with each package
#
# Roots are made once (about 300 MB and some minutes each; needs root) in $MSPROBE_ROOTS, default ~/.cache/msprobe-roots; what is
# tried happens in a copy. Another machine's root needs the kernel to run its programs through qemu: Debian's packages
# qemu-user-static and binfmt-support arrange that.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
. tools/dev/debian_roots.sh

with_torch=0
[ "${1:-}" != --torch ] || { with_torch=1; shift; }
machine=${1:-$(uname -m)}
case $machine in
  x86_64) architecture=amd64 ;;
  aarch64) architecture=arm64 ;;
  *) fail "unknown machine $machine" "known: x86_64 aarch64" ;;
esac
[ "$(id -u)" = 0 ] || fail "entering another root needs root"
tools/install_dependencies.sh package

packages=(build-package/msprobe-*_"$machine".whl build-package/msprobe-*-linux-"$machine".tar.gz build-package/msprobe_*_"$architecture".deb)
for package in "${packages[@]}"; do
  [ -f "$package" ] || fail "${package##*/} is missing" "tools/dev/package.sh makes it"
done

# The user's side: what runs inside. Every step says what it does; the first that fails ends it.
read -r -d '' steps <<'INSIDE' || true
set -eu
with_torch=$1
step() { printf -- '-- %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }
. /etc/os-release
step "$PRETTY_NAME, $(uname -m), $(ldd --version | head -n 1), $(python3 --version)"
for compiler in cc gcc c++ g++ clang; do
  ! command -v "$compiler" >/dev/null || fail "this root has a compiler: $compiler"
done
mkdir -p /tmp/use && cd /tmp/use && cp /packages/* .
tar xzf msprobe-*-linux-*.tar.gz
archive=$(echo msprobe-*-linux-*/)
example=$PWD/${archive}share/doc/msprobe/docs/example

# use NAME PROGRAM PYTHON...: the program answers, and this Python imports the package.
use() {
  local name=$1 program=$2
  shift 2
  step "$name: $("$program" --version), $(command -v "$program")"
  "$program" compare "$example/npu" "$example/bench" -o "result_$name" >answer.txt || fail "compare ended with $?"
  head -n 1 answer.txt
  grep -q '^DIFFERENT: it starts with a parameter of blocks.0.mlp.fc1' answer.txt || fail "not the answer: $(cat answer.txt)"
  "$@" -c 'import msprobe._native, sys; print("imported by Python %d.%d" % sys.version_info[:2])'
  if [ "$with_torch" = 1 ]; then
    "$program" dump --dump_path "dump_$name" -- "$@" "$example/train.py" >answer.txt 2>&1 || fail "$(cat answer.txt)"
    grep -E 'captured [0-9]+ steps' answer.txt || fail "nothing captured: $(cat answer.txt)"
  else
    ! "$@" -c 'import msprobe.pytorch' 2>answer.txt || fail "msprobe.pytorch was imported without PyTorch"
    tail -n 1 answer.txt
    "$program" dump --dump_path "dump_$name" -- "$@" -c 'print("the script ran")'
  fi
}

step "the wheel"
python3 -m venv --system-site-packages env
env/bin/pip install --quiet --no-index msprobe-*.whl
use wheel env/bin/msprobe env/bin/python
env/bin/pip uninstall --quiet --yes msprobe
[ ! -e env/bin/msprobe ] || fail "pip left the program behind"

step "the archive"
PYTHONPATH=$PWD/${archive}lib/msprobe/python
export PYTHONPATH
use archive "${archive}bin/msprobe" python3
unset PYTHONPATH

step "the Debian package"
find / -xdev -not -path '/tmp/*' -not -path '/proc/*' -not -path '/var/*' | sort >before.txt
apt-get install -y --no-install-recommends ./msprobe_*.deb >apt.txt 2>&1 || fail "$(cat apt.txt)"
grep -E 'newly installed' apt.txt
use deb msprobe python3
bash -c '. /usr/share/bash-completion/completions/msprobe && complete -p msprobe' || fail "the completion does not load"
zcat /usr/share/man/man1/msprobe-compare.1.gz | grep '^[.]TH' || fail "there is no manual page"
apt-get purge -y msprobe >apt.txt 2>&1 || fail "$(cat apt.txt)"
find / -xdev -not -path '/tmp/*' -not -path '/proc/*' -not -path '/var/*' | sort >after.txt
left=$(comm -13 before.txt after.txt)
[ -z "$left" ] || fail "the package left behind: $left"
step "all three work and are gone"
INSIDE

[ $# -gt 1 ] && suites=("${@:2}") || suites=(bookworm trixie)
for suite in "${suites[@]}"; do
  base=${MSPROBE_ROOTS:-$HOME/.cache/msprobe-roots}/$suite-$architecture
  make_root "$base" "$suite" "$architecture" python3-venv
  root=$(mktemp -d)
  # shellcheck disable=SC2064
  trap "rm -rf --one-file-system '$root'" EXIT
  cp -a "$base/." "$root"
  mkdir -p "$root/packages"
  cp "${packages[@]}" "$root/packages/"
  if [ "$with_torch" = 1 ]; then
    say "installing PyTorch in $suite"
    chroot "$root" sh -c "DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends python3-torch" \
      >"$base.log" 2>&1 || fail "installing PyTorch failed; see $base.log"
  fi
  say "trying the packages in $suite ($architecture)"
  run_in_root "$root" -- bash -c "$steps" bash "$with_torch" || fail "the packages do not work in $suite ($architecture)"
  rm -rf --one-file-system "$root"
  trap - EXIT
done
