# shellcheck shell=bash
# Debian systems in folders, sourced by scripts that try things there. Needs root and the package debootstrap.

# make_root ROOT SUITE ARCHITECTURE [PACKAGE...]: a minimal system of that release with these packages, made once.
make_root() {
  local root=$1 suite=$2 architecture=$3 mirror
  shift 3
  [ ! -e "$root/.ready" ] || return 0
  say "making a Debian root ($suite, $architecture) in $root (some minutes)"
  mirror=$(grep -rhoEm1 'https?://[^ ]*debian/?$' /etc/apt/sources.list /etc/apt/sources.list.d/ 2>/dev/null | head -1 || true)
  rm -rf --one-file-system "$root"
  mkdir -p "$root"
  debootstrap --variant=minbase --arch="$architecture" "$suite" "$root" ${mirror:+"$mirror"} >"$root.log" 2>&1 \
    || fail "debootstrap failed; see $root.log"
  cp /etc/apt/apt.conf.d/* "$root/etc/apt/apt.conf.d/" 2>/dev/null || true
  cp /etc/resolv.conf /etc/hosts "$root/etc/" 2>/dev/null || true
  chroot "$root" sh -c "apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $*" \
    >>"$root.log" 2>&1 || fail "installing $* failed; see $root.log"
  touch "$root/.ready"
}

# run_in_root ROOT [FOLDER...] -- COMMAND...: with FOLDERs under their own paths inside, in the caller's folder if it is there.
# COMMAND may begin with NAME=VALUE. What is mounted for it ends with it.
run_in_root() {
  unshare --mount --propagation private bash -c '
    root=$1 here=$2; shift 2
    for folder in /proc /dev; do mount --rbind "$folder" "$root$folder"; done
    while [ "$1" != -- ]; do mkdir -p "$root$1"; mount --rbind "$1" "$root$1"; shift; done; shift
    exec chroot "$root" env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
      sh -c "cd \"\$1\" 2>/dev/null; shift; exec env \"\$@\"" sh "$here" "$@"' \
    bash "$1" "$PWD" "${@:2}"
}
