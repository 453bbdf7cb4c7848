#!/usr/bin/env bash
# Times `msprobe graph` on generated pairs of dumps: 24,000 nodes of one rank, 500,000 of 64 ranks.
#
#   tests/bench/graph_bench.sh [FOLDER]     FOLDER keeps the generated dumps (default: a temporary one); about 7 GB
#
# Needs build/bin/msprobe; makes it if absent. Figures are the median of five runs on two threads (of 500,000 nodes: of three), the
# dumps in the page cache.
set -euo pipefail
. "$(dirname "$0")/common.sh"

report() {  # nodes, ranks, runs
  local folder=$data/graph_$1 format
  [ -d "$folder" ] || python3 tests/bench/make_graph_dumps.py "$folder" --nodes "$1" --ranks "$2"
  for format in vis db vis,db; do
    for _ in $(seq "$3"); do
      rm -rf "$data/out"
      /usr/bin/time -f '%e %U %S %M' -o "$data/time.txt" "$msprobe" graph "$folder/npu" "$folder/bench" -o "$data/out" \
        --format "$format" --threads 2 -q
      echo "$(cat "$data/time.txt") $(du -sm "$data/out" | cut -f1)"
    done | sort -n | sed -n "$((($3 + 1) / 2))p" | awk -v nodes="$1" -v ranks="$2" -v format="$format" '{
      printf "%6d nodes, %2d ranks, %-6s  %6.2f s  %6.2f s CPU  peak %5d MB  %5d MB written\n", nodes, ranks, format, $1, $2 + $3,
        $4 / 1000, $5}'
  done
}

report 24010 1 5
report 500000 64 3
rm -rf "$data/out"
