#!/usr/bin/env bash
# Times `msprobe parse` on kernel dumps beside a copy of the same files, and conversions of layouts beside a copy in memory.
#
#   tests/bench/kernel_dump_bench.sh [--quick] [FOLDER]     FOLDER keeps the generated dumps (default: a temporary one)
#
# Needs build/bin/msprobe; makes it if absent. All times are wall-clock of warm files, the median of three runs; each run writes
# into a folder that does not exist before. Writing back to the disk is not counted for either, but goes on behind both.
set -euo pipefail
files=10000
bytes=400000
if [ "${1:-}" = --quick ]; then
  shift
  files=1000
fi
. "$(dirname "$0")/common.sh"

[ -e "$data/dumps/.complete" ] || { python3 tests/bench/make_kernel_dumps.py "$data/dumps" "$files" "$bytes" && touch "$data/dumps/.complete"; }
size=$(du -sb "$data/dumps" | cut -f1)

seconds_of() {  # command...: the median of three runs
  local i start
  for i in 1 2 3; do
    rm -rf "$data/out"
    sync
    start=$(date +%s.%N)
    "$@" >/dev/null
    echo "$(date +%s.%N) $start" | awk '{print $1 - $2}'
  done | sort -n | sed -n 2p
}

cat "$data/dumps"/* >/dev/null  # into the page cache
copy=$(seconds_of cp -r "$data/dumps" "$data/out")
report() {  # label, seconds
  awk -v label="$1" -v seconds="$2" -v size="$size" -v copy="$copy" \
    'BEGIN {printf "%-44s %6.2f s  %5.2f GB/s  %.2f x the copy\n", label, seconds, size / seconds / 1e9, seconds / copy}'
}
echo "$files files, $(awk -v size="$size" 'BEGIN {printf "%.2f GB", size / 1e9}'), $(nproc) cores"
report "cp -r" "$copy"
report "parse -t npy" "$(seconds_of "$msprobe" parse "$data/dumps" -t npy -o "$data/out" -q)"
report "parse -t npy --to-original" "$(seconds_of "$msprobe" parse "$data/dumps" --to-original -t npy -o "$data/out" -q)"
report "parse -t npy --to-original --threads 1" \
  "$(seconds_of "$msprobe" parse "$data/dumps" --to-original -t npy -o "$data/out" -q --threads 1)"
rm -rf "$data/out"
