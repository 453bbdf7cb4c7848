#!/usr/bin/env bash
# Times `msprobe parse` on kernel dumps beside a copy of the same files, and conversions of layouts beside a copy in memory.
#
#   tests/bench/kernel_dump_bench.sh [--quick] [FOLDER]     FOLDER keeps the generated dumps (default: a temporary one)
#
# 10,000 files of 393 kB, 4 GB, and as much again for what is made of them; --quick: 1,000. Needs build/bin/msprobe; makes it if
# absent. Warm files, the median of three runs by wall-clock time, with the seconds of CPU of that run (user and system: on a
# machine that is busy they tell more); each run writes into a folder that does not exist before. Writing back to the disk is not
# counted for either, but goes on behind both, and ext4 is slow to make files right after as many were deleted: a FOLDER in memory
# (/dev/shm, 8 GB) leaves the disk out of it. Layouts are timed where build-bench/bin/layout_bench is built
# (cmake --preset bench && cmake --build --preset bench --target layout_bench).
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

times_of() {  # command...: wall-clock and CPU seconds of the median of three runs
  local i
  for i in 1 2 3; do
    rm -rf "$data/out"
    sync
    TIMEFORMAT='%R %U %S'
    { time "$@" >/dev/null 2>&1; } 2>&1
  done | awk '{print $1, $2 + $3}' | sort -n | sed -n 2p
}

cat "$data/dumps"/* >/dev/null  # into the page cache
copy=$(times_of cp -r "$data/dumps" "$data/out")
report() {  # label, seconds, CPU seconds
  awk -v label="$1" -v times="$2" -v size="$size" -v copy="$copy" 'BEGIN {
    split(times, t, " "); split(copy, c, " ")
    printf "%-40s %6.2f s  %5.2f GB/s  %.2f x the copy   CPU %6.2f s, %.2f x\n", label, t[1], size / t[1] / 1e9, t[1] / c[1], t[2], t[2] / c[2]
  }'
}
echo "$files files, $(awk -v size="$size" 'BEGIN {printf "%.2f GB", size / 1e9}'), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
report "cp -r" "$copy"
report "parse -t npy" "$(times_of "$msprobe" parse "$data/dumps" -t npy -o "$data/out" -q)"
report "parse -t npy --to-original" "$(times_of "$msprobe" parse "$data/dumps" --to-original -t npy -o "$data/out" -q)"
report "parse -t npy --to-original --threads 1" \
  "$(times_of "$msprobe" parse "$data/dumps" --to-original -t npy -o "$data/out" -q --threads 1)"
rm -rf "$data/out"
[ ! -x build-bench/bin/layout_bench ] || build-bench/bin/layout_bench --benchmark_min_time=0.5
