# shellcheck shell=bash
# Shared by the scripts in tools/: sourced, never run. Leaves the caller in the repository's root.
set -euo pipefail

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$repository"

say() { printf '== %s\n' "$*"; }

fail() {
  printf 'error: %s\n' "$1" >&2
  [ $# -lt 2 ] || printf '  hint: %s\n' "$2" >&2
  exit 1
}

# Compile jobs: one per core, but never more than memory carries (a heavy file takes about 1 GB).
build_jobs() {
  local cores memory_gigabytes
  cores=$(nproc 2>/dev/null || echo 2)
  memory_gigabytes=$(awk '/^MemAvailable:/ { print int($2 / 1000000) }' /proc/meminfo 2>/dev/null || echo 2)
  [ "${memory_gigabytes:-0}" -ge 1 ] || memory_gigabytes=1
  [ "$cores" -le "$memory_gigabytes" ] && echo "$cores" || echo "$memory_gigabytes"
}

# build_preset PRESET [target...]: compiles a configured preset and names the preset when that fails.
build_preset() {
  local preset=$1
  shift
  cmake --build --preset "$preset" --parallel "$(build_jobs)" ${1:+--target "$@"} \
    || fail "building the preset $preset failed; the compiler's message stands above"
}
