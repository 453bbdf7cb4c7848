#!/usr/bin/env bash
# Times `msprobe nan_analyze` on generated dumps of 16, 64 and 256 ranks.
#
#   tests/bench/nan_bench.sh [FOLDER]     FOLDER keeps the generated dumps (default: a temporary one)
#
# Needs build/bin/msprobe; makes it if absent. 2,000 operators per rank; once all good, once NaN everywhere behind one operator, and
# one size of 8,000 operators. Figures are the median of five runs on two threads, the files in the page cache.
set -euo pipefail
. "$(dirname "$0")/common.sh"
idle_kb=$(/usr/bin/time -f %M "$msprobe" --version 2>&1 >/dev/null)

report() {  # label, ranks, operators, flags...
  local label=$1 ranks=$2 operators=$3 bytes folder
  shift 3
  folder=$data/${ranks}_${operators}$*
  [ -d "$folder" ] || python3 tests/bench/make_nan_dumps.py "$folder" --ranks "$ranks" --operators "$operators" "$@"
  bytes=$(cat "$folder"/step0/rank*/dump.json | wc -c)
  for _ in 1 2 3 4 5; do
    rm -rf "$data/out"
    /usr/bin/time -f '%e %U %S %M' -o "$data/time.txt" "$msprobe" nan_analyze -i "$folder/step0" -o "$data/out" --threads 2 -q
    cat "$data/time.txt"
  done | sort -n | sed -n 3p | awk -v label="$label" -v ranks="$ranks" -v operators="$operators" -v bytes="$bytes" -v idle="$idle_kb" '{
    printf "%-9s %3d ranks x %4d operators, %4d MB  %6.2f s  %5.2f s CPU  %6.2f GB/s  peak %4d MB, %4d bytes per operator\n", label,
      ranks, operators, bytes / 1e6, $1, $2 + $3, bytes / 1e9 / ($1 > 0 ? $1 : 0.005), $4 / 1000, ($4 - idle) * 1024 / ranks / operators}'
}

for ranks in 16 64 256; do
  report good "$ranks" 2000
done
for ranks in 16 64 256; do
  report poisoned "$ranks" 2000 --poisoned
done
report poisoned 64 8000 --poisoned
