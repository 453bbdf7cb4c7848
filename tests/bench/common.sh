# What the timing scripts have in common: sourced, with the script's remaining arguments.
#
# Stands at the root of the repository; sets `data`, the folder of generated inputs (the first argument, which is kept, or a
# temporary one), and `msprobe`, which is built if it is not.
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
if [ $# -ge 1 ]; then
  data=$1
  mkdir -p "$data"
else
  data=$(mktemp -d)
  trap 'rm -rf "$data"' EXIT
fi
[ -x build/bin/msprobe ] || { cmake --preset release >/dev/null && cmake --build --preset release --target msprobe; }
msprobe=$PWD/build/bin/msprobe
