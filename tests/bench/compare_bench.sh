#!/usr/bin/env bash
# Times `msprobe compare` as a whole on generated dumps and sets each figure beside the machine's memory-read roof.
#
#   tests/bench/compare_bench.sh [--quick] [FOLDER]     FOLDER keeps the generated dumps (default: a temporary one)
#
# Needs build/bin/msprobe (cmake --preset release) and build-bench/bin/roof_probe (cmake --preset bench); makes both if absent.
# Every figure is the median of five warm runs after one that is not counted.
set -euo pipefail
runs=5
tensor_count=200
rows=100000
large_rows=740000
if [ "${1:-}" = --quick ]; then
  shift
  runs=3 tensor_count=40 rows=20000 large_rows=100000
fi
. "$(dirname "$0")/common.sh"

[ -x build-bench/bin/roof_probe ] || { cmake --preset bench >/dev/null && cmake --build --preset bench --target roof_probe; }

make_dump() {  # name, generator arguments...
  local name=$1
  shift
  [ -e "$data/$name/.complete" ] || {
    /usr/bin/python3 tools/dev/make_compare_dumps.py "$data/$name" "$@" && touch "$data/$name/.complete"
  }
}

# median SECONDS and peak kB of a command, as two words
measure() {
  local i
  "$@" >/dev/null 2>&1
  for ((i = 0; i < runs; ++i)); do
    /usr/bin/time -f '%e %M' -o "$data/time.txt" "$@" >/dev/null 2>&1
    cat "$data/time.txt"
  done | sort -n | awk '{seconds[NR] = $1; if ($2 > peak) peak = $2} END {print seconds[int((NR + 1) / 2)], peak}'
}

tensor_bytes() { du -cb "$data/$1"/*/dump_tensor_data | tail -1 | cut -f1; }

echo "machine: $(nproc) cores, $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2-)"
read -r roof_one roof_all < <(build-bench/bin/roof_probe)
echo "memory-read roof: $roof_one GB/s on one core, $roof_all GB/s on all"

make_dump tensors tensors --count "$tensor_count" --mib 2.5
make_dump large tensors --count 4 --mib 125
make_dump statistics statistics --rows "$rows"
make_dump long statistics --rows "$large_rows"

report_tensors() {  # label, dump, threads
  local bytes seconds peak
  bytes=$(tensor_bytes "$2")
  read -r seconds peak < <(measure "$msprobe" compare -q "$data/$2/npu" "$data/$2/bench" -o "$data/out" --threads "$3")
  awk -v label="$1" -v bytes="$bytes" -v seconds="$seconds" -v peak="$peak" -v one="$roof_one" -v all="$roof_all" -v threads="$3" \
    'BEGIN {rate = bytes / seconds / 1e9; roof = threads == 1 ? one : all;
            printf "%-46s %7.3f s  %6.2f GB/s  %3.0f %% of the roof  peak %4.0f MB\n", label, seconds, rate, 100 * rate / roof, peak / 1000}'
}

# What merely looking at the files costs, and reading them after they were dropped from the page cache: ours beside cat, by turns.
report_files() {  # dump
  local mapped read i ours=() plain=() files
  mapfile -t files < <(find "$data/$1" -name '*.pt')
  drop() { for file in "${files[@]}"; do dd if="$file" of=/dev/null oflag=nocache iflag=nocache count=0 status=none; done; }
  now() { date +%s.%N; }
  seconds() { local begin; begin=$(now); "$@" >/dev/null 2>&1; echo "$(now) $begin" | awk '{printf "%.3f\n", $1 - $2}'; }
  read -r mapped read < <(build-bench/bin/roof_probe "${files[@]}")
  printf '%-46s %7.3f s mapped, %.3f s read\n' "merely looking at ${#files[@]} files, all threads" "$mapped" "$read"
  for ((i = 0; i < runs; ++i)); do
    drop; plain+=("$(seconds cat "${files[@]}")")
    drop; ours+=("$(seconds "$msprobe" compare -q "$data/$1/npu" "$data/$1/bench" -o "$data/out")")
  done
  printf '%-46s %7.3f s, cat of the same files %.3f s (best of %d)\n' "real data, cold, all threads" \
    "$(printf '%s\n' "${ours[@]}" | sort -n | head -1)" "$(printf '%s\n' "${plain[@]}" | sort -n | head -1)" "$runs"
}

report_statistics() {  # label, dump, extra flags...
  local label=$1 dump=$2 bytes seconds peak
  shift 2
  bytes=$(cat "$data/$dump"/*/dump.json | wc -c)
  read -r seconds peak < <(measure "$msprobe" compare -q "$data/$dump/npu" "$data/$dump/bench" -o "$data/out" "$@")
  awk -v label="$label" -v bytes="$bytes" -v seconds="$seconds" -v peak="$peak" \
    'BEGIN {printf "%-46s %7.3f s  %6.0f MB/s of json  peak %4.0f MB = %.2f x the text\n", label, seconds, bytes / seconds / 1e6, peak / 1000, peak * 1000 / bytes}'
}

report_tensors "real data, $tensor_count x 2.5 MiB, 1 thread" tensors 1
report_tensors "real data, $tensor_count x 2.5 MiB, all threads" tensors "$(nproc)"
report_tensors "real data, 4 x 125 MiB, all threads" large "$(nproc)"
report_files tensors
report_statistics "statistics, $rows rows, xlsx" statistics
report_statistics "statistics, $rows rows, csv" statistics --format csv
report_statistics "statistics, $large_rows rows, xlsx" long
report_statistics "statistics, $large_rows rows, csv, differences" long --format csv --only-diff
read -r seconds peak < <(measure bash -c "for i in {1..100}; do '$msprobe' compare --help; done")
awk -v seconds="$seconds" 'BEGIN {printf "%-46s %7.2f ms\n", "compare --help, mean of 100", seconds * 10}'
