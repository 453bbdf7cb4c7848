#!/usr/bin/env bash
# Runs the tests of the Python shim (tests/python/torch) under PyTorch 2, in a Debian 13 root of its own.
#
#   tools/dev/test_torch2.sh [FILE...]      default: every tests/python/torch/*_test.py
#
# The programs are those of build/: they were made for Debian 12 and run there too, as on a user's newer host. The root is made
# once (about 1.5 GB, some minutes; needs root) in $MSPROBE_TORCH2_ROOT, default ~/.cache/torch2-root.
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"

root=${MSPROBE_TORCH2_ROOT:-$HOME/.cache/torch2-root}
golden=${MSPROBE_GOLDEN:-$(dirname "$repository")/shared/golden}

make_root() {
  tools/install_dependencies.sh torch2
  say "making a Debian 13 root with PyTorch 2 in $root (some minutes)"
  local mirror
  mirror=$(grep -rhoEm1 'https?://[^ ]*debian/?$' /etc/apt/sources.list /etc/apt/sources.list.d/ 2>/dev/null | head -1 || true)
  mkdir -p "$root"
  debootstrap --variant=minbase trixie "$root" ${mirror:+"$mirror"} >"$root.log" 2>&1 || fail "debootstrap failed; see $root.log"
  cp /etc/apt/apt.conf.d/* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
  cp /etc/resolv.conf /etc/hosts "$root/etc/" 2>/dev/null || true
  chroot "$root" sh -c "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends \
    python3-torch python3-numpy" >>"$root.log" 2>&1 || fail "installing PyTorch failed; see $root.log"
  touch "$root/.ready"
}

# A private mount namespace: the binds end with the command.
run_inside() {
  unshare --mount --propagation private bash -c '
    root=$1; repository=$2; golden=$3; shift 3
    mount --rbind /proc "$root/proc"; mount --rbind /dev "$root/dev"
    mkdir -p "$root$repository"; mount --rbind "$repository" "$root$repository"
    if [ -d "$golden" ]; then mkdir -p "$root$golden"; mount --rbind "$golden" "$root$golden"; fi
    exec chroot "$root" env -i HOME=/root PATH=/usr/bin:/bin LANG=C.UTF-8 PYTHONPATH="$repository/build/python" \
      MSPROBE="$repository/build/bin/msprobe" MSPROBE_GOLDEN="$golden" sh -c "cd \"$repository\" && exec \"\$@\"" sh "$@"' \
    bash "$root" "$repository" "$golden" "$@"
}

[ "$(id -u)" = 0 ] || fail "entering another root needs root"
[ -d build/python/msprobe ] || fail "build/python is missing" "tools/test.sh builds it"
[ -e "$root/.ready" ] || make_root
files=("$@")
[ $# -gt 0 ] || files=(tests/python/torch/*_test.py)
say "$(run_inside python3 -c 'import sys, torch; print("Python", sys.version.split()[0], "PyTorch", torch.__version__)')"
for file in "${files[@]}"; do
  say "running $file"
  run_inside python3 "$file" || fail "$file failed under PyTorch 2; again: tools/dev/test_torch2.sh $file"
done
