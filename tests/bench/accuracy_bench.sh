#!/usr/bin/env bash
# Times `msprobe api_precision_compare` and `msprobe run_ut`.
#
#   tests/bench/accuracy_bench.sh [FOLDER]     FOLDER keeps the generated inputs (default: a temporary one)
#
# Needs build/bin/msprobe, which it makes if absent, build/python, and for run_ut a Python with PyTorch. Figures are the median of five
# runs; what an operator takes is what the larger dump takes longer, per operator.
set -euo pipefail
. "$(dirname "$0")/common.sh"

median() {  # command...: seconds and peak kB of the median run
  for _ in 1 2 3 4 5; do
    rm -rf "$data/out"
    /usr/bin/time -f '%e %M' -o "$data/time.txt" "$@" -o "$data/out" -q
    cat "$data/time.txt"
  done | sort -n | sed -n 3p
}

for rows in 1000 10000 100000; do
  python3 tests/bench/make_operator_dump.py details "$data/$rows.csv" "$rows"
  median "$msprobe" api_precision_compare "$data/$rows.csv" "$data/$rows.csv" |
    awk -v rows="$rows" '{ printf "api_precision_compare  %6d rows       %6.2f s  peak %4d MB\n", rows, $1, $2 / 1000 }'
done
few=49 many=2049
for operators in $few $many; do
  python3 tests/bench/make_operator_dump.py dump "$data/$operators.json" "$operators"
  median "$msprobe" run_ut "$data/$operators.json" >"$data/$operators.txt"
  awk -v operators="$operators" '{ printf "run_ut                 %6d operators  %6.2f s  peak %4d MB\n", operators, $1, $2 / 1000 }' "$data/$operators.txt"
done
awk -v count=$((many - few)) 'NR == 1 { few = $1 } NR == 2 { printf "run_ut                 each further  %7.2f ms, forward and backward\n", ($1 - few) / count * 1000 }' \
  "$data/$few.txt" "$data/$many.txt"
