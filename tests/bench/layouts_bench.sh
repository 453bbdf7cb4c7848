#!/usr/bin/env bash
# Times `msprobe compare` of runs that are cut otherwise, beside that of equal runs rank by rank.
#
#   tests/bench/layouts_bench.sh [--rows N] [--planning RANKS] [FOLDER]     FOLDER keeps the generated dumps (default: a temporary one)
#
# --planning: also the plan of so many ranks, a multiple of 64, with and without records: dumps of few rows, so that the plan is most of it.
#
# 64 ranks (TP 8 x DP 8) of 20,000 rows against 8 (TP 4 x DP 2) joined, and against 64 of the same layout rank by rank, as before there
# were layouts; a smaller model with tensors in both ways; and what the check of replicas adds where layouts are equal. Each line is the
# best of three: time, CPU, peak, and CPU time per row that was read.
set -euo pipefail
rows=20000
planning=0
while [ $# -gt 0 ] && [ "$1" != "${1#--}" ]; do
  case $1 in
    --rows) rows=$2 ;;
    --planning) planning=$2 ;;
    *) echo "unknown argument $1" >&2; exit 2 ;;
  esac
  shift 2
done
. "$(dirname "$0")/common.sh"
msprobe=${MSPROBE:-$msprobe}

make() {  # folder, arguments...
  local folder=$1
  shift
  [ -e "$data/$folder/.complete" ] && return
  rm -rf "${data:?}/$folder"
  /usr/bin/python3 tests/bench/make_layout_dumps.py "$data/$folder" "$@"
  touch "$data/$folder/.complete"
}

measure() {  # label, rows that are read, command...
  local label=$1 read=$2
  shift 2
  for _ in 1 2 3; do
    rm -rf "$data/out"
    /usr/bin/time -f '%e %U %S %M' "$@" -o "$data/out" -q 2>&1 >/dev/null | tail -1
  done | sort -g -k2,2 | head -1 | awk -v label="$label" -v rows="$read" \
    '{printf "%-52s %6.2f s  %6.2f CPU s  peak %5.0f MB  %5.2f us of CPU a row\n", label, $1, $2 + $3, $4 / 1000, ($2 + $3) / rows * 1e6}'
}

make statistics --npu 8x8 --bench 4x2 --rows "$rows"
make tensors --npu 4x2 --bench 2x2 --rows 1200 --tensors
[ -e "$data/equal" ] || cp -al "$data/statistics/npu" "$data/equal"
[ -e "$data/equal-tensors" ] || cp -al "$data/tensors/npu" "$data/equal-tensors"
echo "$(nproc) cores; load $(cut -d' ' -f1 /proc/loadavg)"
measure "64 ranks against 8, joined" $((72 * rows)) "$msprobe" compare "$data/statistics/npu" "$data/statistics/bench"
measure "64 ranks against 64, rank by rank" $((128 * rows)) "$msprobe" compare --layout none "$data/statistics/npu" "$data/equal"
measure "the same with the check of replicas" $((128 * rows)) "$msprobe" compare "$data/statistics/npu" "$data/equal"
measure "tensors, 8 ranks against 4, joined" $((12 * 1200)) "$msprobe" compare "$data/tensors/npu" "$data/tensors/bench"
measure "tensors, 8 ranks against 8, rank by rank" $((16 * 1200)) "$msprobe" compare --layout none "$data/tensors/npu" "$data/equal-tensors"
if [ "$planning" -gt 0 ]; then
  make planning --npu 8x8 --bench 1x1 --rows 100 --copies $((planning / 64))
  make planning-dumps --npu 8x8 --bench 1x1 --rows 100 --copies $((planning / 64)) --no-records
  for kind in planning planning-dumps; do
    measure "$kind: $planning ranks of 100 rows against one" $((planning * 100)) "$msprobe" compare "$data/$kind/npu" "$data/$kind/bench"
  done
fi
