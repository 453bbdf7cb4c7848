#!/usr/bin/env bash
# Times `msprobe parse` on kernel dumps beside a copy of the same files, and conversions of layouts beside a copy in memory.
#
#   tests/bench/kernel_dump_bench.sh [--quick] [FOLDER]     FOLDER keeps the generated dumps (default: a temporary one)
#
# 10,000 files of 393 kB, 4 GB, and as much again for what is made of them; --quick: 1,000. Needs build/bin/msprobe; makes it if
# absent. Warm files, the median of three runs by wall-clock time, with the seconds of CPU of that run (user and system: on a
# machine that is busy they tell more). Each run writes into a new folder, and no folder is removed before the last run has ended:
# ext4 looks at every number of a file that was deleted a moment ago before it gives it away again, which costs what makes three
# files three times what it costs a copy. Without room for twelve results there is one run of each. Writing back to the disk is not
# counted, but goes on behind all of them: a FOLDER in memory (/dev/shm) leaves the disk out of it. `cp -r` of a result makes as
# many files as parse does. System calls are counted where strace is. Layouts are timed where build-bench/bin/layout_bench is built
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

runs=3
[ "$(df --output=avail -k "$data" | tail -1)" -gt $((16 * size / 1024)) ] || runs=1
results=$data/results
rm -rf "$results"
mkdir "$results"

times_of() {  # command...: wall-clock and CPU seconds of the median of the runs; NEW is a new folder in each
  local i
  TIMEFORMAT='%R %U %S'
  for ((i = 0; i < runs; ++i)); do
    sync
    { time "${@/#NEW/$(mktemp -u "$results/XXXXXXXX")}" >/dev/null 2>&1; } 2>&1
    [ $runs -gt 1 ] || rm -rf "$results"/*
  done | awk '{print $1, $2 + $3}' | sort -n | sed -n $((runs / 2 + 1))p
}

cat "$data/dumps"/* >/dev/null  # into the page cache
copy=$(times_of cp -r "$data/dumps" NEW)
report() {  # label, seconds, CPU seconds
  awk -v label="$1" -v times="$2" -v size="$size" -v copy="$copy" 'BEGIN {
    split(times, t, " "); split(copy, c, " ")
    printf "%-40s %6.2f s  %5.2f GB/s  %.2f x the copy   CPU %6.2f s, %.2f x\n", label, t[1], size / t[1] / 1e9, t[1] / c[1], t[2], t[2] / c[2]
  }'
}
echo "$files files, $(awk -v size="$size" 'BEGIN {printf "%.2f GB", size / 1e9}'), $(nproc) cores, load $(cut -d' ' -f1 /proc/loadavg)"
report "cp -r" "$copy"
report "parse -t npy" "$(times_of "$msprobe" parse "$data/dumps" -t npy -o NEW -q)"
report "parse -t npy --threads 1" "$(times_of "$msprobe" parse "$data/dumps" -t npy -o NEW -q --threads 1)"
report "parse -t npy --to-original" "$(times_of "$msprobe" parse "$data/dumps" --to-original -t npy -o NEW -q)"
report "parse -t npy --to-original --threads 1" \
  "$(times_of "$msprobe" parse "$data/dumps" --to-original -t npy -o NEW -q --threads 1)"
"$msprobe" parse "$data/dumps" -t npy -o "$results/parsed" -q >/dev/null
report "cp -r of a result of parse" "$(times_of cp -r "$results/parsed" NEW)"
if command -v strace >/dev/null; then
  strace -f -c -o "$results/calls" "$msprobe" parse "$data/dumps" -t npy -o "$results/counted" -q --threads 1 >/dev/null
  awk -v made="$(find "$results/counted" -type f | wc -l)" \
    '$NF == "total" {printf "system calls of parse: %d, %.1f per file made\n", $4, $4 / made}' "$results/calls"
fi
rm -rf "$results"
[ ! -x build-bench/bin/layout_bench ] || build-bench/bin/layout_bench --benchmark_min_time=0.5
