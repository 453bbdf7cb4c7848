#!/usr/bin/env bash
# Times `msprobe perf_compare` on generated traces, beside what the Python tool needed for traces of that size.
#
#   tests/bench/perf_bench.sh [--quick] [FOLDER]     FOLDER keeps the generated traces (default: a temporary one)
#
# Needs build/bin/msprobe; makes it if absent. PERF_GENERATOR names another generator with the flags of make_profiles.py. Figures
# are the median of three runs, the files in the page cache. The Python tool's: msprof-analyze 8.1.1 on two cores.
set -euo pipefail
megabytes=340
if [ "${1:-}" = --quick ]; then
  shift
  megabytes=34
fi
. "$(dirname "$0")/common.sh"
generator=${PERF_GENERATOR:-tests/bench/make_profiles.py}

make_pair() {  # megabytes
  [ -e "$data/before_$1.json" ] || python3 "$generator" "$data/before_$1.json" --mb "$1"
  [ -e "$data/after_$1.json" ] || python3 "$generator" "$data/after_$1.json" --mb "$1" --slower 8
}

measure() {  # megabytes, flags...: seconds, CPU seconds and peak kB of the median run
  local size=$1
  shift
  for _ in 1 2 3; do
    rm -rf "$data/out"
    /usr/bin/time -f '%e %U %M' -o "$data/time.txt" "$msprobe" perf_compare -d "$data/after_$size.json" \
      -bp "$data/before_$size.json" -o "$data/out" --threads 2 -q "$@"
    cat "$data/time.txt"
  done | sort -n | sed -n 2p
}

report() {  # label, megabytes, the Python tool's seconds, flags...
  local label=$1 size=$2 python=$3 seconds cpu peak
  shift 3
  read -r seconds cpu peak < <(measure "$size" "$@")
  awk -v label="$label" -v size="$size" -v seconds="$seconds" -v cpu="$cpu" -v peak="$peak" -v python="$python" 'BEGIN {
    printf "%-22s 2 x %3d MB %7.2f s %7.2f s CPU  peak %5.0f MB", label, size, seconds, cpu, peak / 1000
    if (python > 0) printf "   the Python tool: %s s, 3870 MB: %.0f x", python, python / seconds
    print ""}'
}

full=$megabytes
for size in $((full / 4)) $((full / 2)) $full; do
  make_pair "$size"
done
python_overall=139 python_all=246
[ "$full" -eq 340 ] || python_overall=0 python_all=0
report "overall times only" "$full" "$python_overall" --enable_profiling_compare
report "everything, 1x" $((full / 4)) 0
report "everything, 2x" $((full / 2)) 0
report "everything, 4x" "$full" "$python_all"
