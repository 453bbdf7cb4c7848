#!/usr/bin/env bash
# Times `msprobe ckpt_compare` on generated Megatron checkpoints, beside what the Python tool needed for the same pairs.
#
#   tests/bench/ckpt_bench.sh [--quick] [FOLDER]     FOLDER keeps the generated checkpoints (default: a temporary one)
#
# Needs build/bin/msprobe; makes it if absent. CKPT_GENERATOR names another generator with the flags of
# tools/dev/make_checkpoints.py. Warm figures are the median of five runs after one that is not counted; before each cold run the
# files are dropped from the page cache.
set -euo pipefail
runs=5
megabytes=1024
if [ "${1:-}" = --quick ]; then
  shift
  runs=3 megabytes=64
fi
. "$(dirname "$0")/common.sh"
generator=${CKPT_GENERATOR:-tools/dev/make_checkpoints.py}


make_pair() {  # name, generator arguments...
  local name=$1
  shift
  [ -e "$data/$name/.complete" ] || { python3 "$generator" "$data/$name" "$@" >/dev/null && touch "$data/$name/.complete"; }
}
shards() { find "$data/$1" -name '*.pt' | sort; }
drop_from_cache() { shards "$1" | while read -r file; do dd if="$file" of=/dev/null oflag=nocache iflag=nocache count=0 status=none; done; }
now() { date +%s.%N; }

compare() {  # pair, threads
  "$msprobe" ckpt_compare "$data/$1/a" "$data/$1/b" -o "$data/out.json" --force -q --threads "$2"
}

# seconds, CPU seconds and peak kB of the median run
warm() {  # pair, threads
  local i
  compare "$1" "$2"
  for ((i = 0; i < runs; ++i)); do
    /usr/bin/time -f '%U %S %M' -o "$data/time.txt" bash -c \
      'start=$(date +%s.%N); "$@"; echo "$(date +%s.%N) $start" | awk "{print \$1 - \$2}" > "$0"' "$data/seconds.txt" \
      "$msprobe" ckpt_compare "$data/$1/a" "$data/$1/b" -o "$data/out.json" --force -q --threads "$2"
    echo "$(cat "$data/seconds.txt") $(cat "$data/time.txt")"
  done | sort -n | awk '{seconds[NR] = $1; cpu[NR] = $2 + $3; if ($4 > peak) peak = $4}
                        END {middle = int((NR + 1) / 2); print seconds[middle], cpu[middle], peak}'
}

report_warm() {  # label, pair, threads, bytes of both models, the Python tool's figures
  local seconds cpu peak
  read -r seconds cpu peak < <(warm "$2" "$3")
  awk -v label="$1" -v bytes="$4" -v seconds="$seconds" -v cpu="$cpu" -v peak="$peak" -v python="$5" \
    'BEGIN {printf "%-52s %6.2f s  %5.2f s CPU  %5.1f GB/s  peak %4.0f MB   the Python tool: %s\n",
                   label, seconds, cpu, bytes / seconds / 1e9, peak / 1000, python}'
}

# The fastest of three: a disk that somebody else uses, too, says nothing about us.
fastest_cold() {  # pair, command...
  local pair=$1 i start
  shift
  for i in 1 2 3; do
    drop_from_cache "$pair"
    start=$(now)
    "$@" >/dev/null
    echo "$(now) $start" | awk '{print $1 - $2}'
  done | sort -n | head -1
}
read_all() { shards "$1" | xargs cat; }

report_cold() {  # label, pair
  local ours plain bytes
  bytes=$(shards "$2" | xargs cat | wc -c)
  plain=$(fastest_cold "$2" read_all "$2")
  ours=$(fastest_cold "$2" compare "$2" "$(nproc)")
  awk -v label="$1" -v bytes="$bytes" -v ours="$ours" -v plain="$plain" \
    'BEGIN {printf "%-52s %6.2f s  %5.2f GB/s; cat of the same files %.2f s, %.2f GB/s: %.0f %% of its rate\n",
                   label, ours, bytes / ours / 1e9, plain, bytes / plain / 1e9, 100 * plain / ours}'
}

echo "machine: $(nproc) cores, $(grep -m1 'model name' /proc/cpuinfo | cut -d: -f2-)"
make_pair float32 --mb "$megabytes"
make_pair bfloat16 --mb $((megabytes / 2)) --dtype bfloat16
make_pair optimizer --mb $((megabytes / 2)) --dtype bfloat16 --optimizer
model=$(shards float32 | xargs cat | wc -c)
half=$(shards bfloat16 | xargs cat | wc -c)
report_warm "$megabytes MiB of float32 each, 1 thread" float32 1 "$model" "-"
report_warm "$megabytes MiB of float32 each, 2 threads" float32 2 "$model" "17.1-18.9 s, 2820 MiB"
report_warm "$((megabytes / 2)) MiB of bfloat16 each, 2 threads" bfloat16 2 "$half" "-"
report_warm "the same with 3x fp32 optimizer states beside" optimizer 2 "$half" "22.8-31.4 s, 3880 MiB"
report_cold "$megabytes MiB of float32 each, cold, all threads" float32
