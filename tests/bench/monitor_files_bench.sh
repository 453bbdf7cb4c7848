#!/usr/bin/env bash
# Times the commands of `msprobe monitor` that work on files, on a generated run of a million rows (six statistics each).
#
#   tests/bench/monitor_files_bench.sh [--quick] [FOLDER]     FOLDER keeps the generated run (default: a temporary one)
#
# Needs build/bin/msprobe. Figures are the median of three runs, the files in the page cache.
set -euo pipefail
rows=1000000
if [ "${1:-}" = --quick ]; then
  shift
  rows=50000
fi
. "$(dirname "$0")/common.sh"
for run in before after; do
  flags=(--rows "$rows")
  [ "$run" = before ] || flags+=(--spike)
  [ -d "$data/$run" ] || python3 tests/bench/make_monitor_run.py "$data/$run" "${flags[@]}" > /dev/null
done

measure() {  # label, command...
  local label=$1 seconds user system peak
  shift
  read -r seconds user system peak < <(for _ in 1 2 3; do
    rm -rf "$data/out"
    /usr/bin/time -f '%e %U %S %M' -o "$data/time.txt" "$@" > "$data/log.txt"
    cat "$data/time.txt"
  done | sort -n | sed -n 2p)
  awk -v label="$label" -v seconds="$seconds" -v cpu_user="$user" -v cpu_system="$system" -v peak="$peak" 'BEGIN {
    printf "%-10s %6.2f s %6.2f s CPU  peak %5.0f MB\n", label, seconds, cpu_user + cpu_system, peak / 1000}'
}

echo "$rows rows, $(du -sm "$data/before" | cut -f1) MB of CSV"
measure "csv2tb" "$msprobe" monitor csv2tb --monitor_path "$data/before" --output_dirpath "$data/out"
measure "csv2db" "$msprobe" monitor csv2db --data "$data/before" --db "$data/out"
measure "diff" "$msprobe" monitor diff "$data/before" "$data/after"
