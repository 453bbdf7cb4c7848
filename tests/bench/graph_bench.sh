#!/usr/bin/env bash
# Times `msprobe graph` on generated pairs of dumps: 24,000 nodes of one rank, 500,000 of 64 ranks.
#
#   tests/bench/graph_bench.sh [FOLDER] [TOOL]
#
#     FOLDER  keeps the generated dumps (default: a temporary one); about 7 GB. SMALL=1: the small pair only, 60 MB
#     TOOL    the program `msprobe` of the Python tool, 26.x: timed once on the small pair
#
# Needs build/bin/msprobe with its pages (tools/dev/build_web.sh); makes it if absent. Figures are the median of five runs on two threads (of 500,000 nodes: of three), the
# dumps in the page cache.
set -euo pipefail
. "$(dirname "$0")/common.sh"
tool=${2:-}

measure() {  # command... -> elapsed, user, system, peak, written
  rm -rf "$data/out"
  /usr/bin/time -f '%e %U %S %M' -o "$data/time.txt" "$@" >"$data/told.txt" 2>&1
  echo "$(tail -1 "$data/time.txt") $(du -sm "$data/out" | cut -f1)"
}

line() {  # nodes, ranks, what
  awk -v nodes="$1" -v ranks="$2" -v what="$3" '{
    printf "%6d nodes, %2d ranks, %-11s  %6.2f s  %6.2f s CPU  peak %5d MB  %5d MB written\n", nodes, ranks, what, $1, $2 + $3,
      $4 / 1000, $5}'
}

# How a browser gets on with the page that was written last; nothing where there is none.
watch() {
  local modules=${MSPROBE_WEB_MODULES:-$PWD/build-web/node_modules} chromium
  chromium=$(command -v chromium) && command -v node >/dev/null && [ -d "$modules/playwright-core" ] || return 0
  printf '{"folder": "%s", "pages": ["%s"], "chromium": "%s", "modules": "%s", "pictures": null}' \
    "$data/out" "$(basename "$data"/out/*.html)" "$chromium" "$modules" >"$data/facts.json"
  node tests/web/graph_times.mjs "$data/facts.json" | grep -v passed
}

report() {  # nodes, ranks, runs
  local folder=$data/graph_$1 format
  [ -d "$folder" ] || python3 tests/bench/make_graph_dumps.py "$folder" --nodes "$1" --ranks "$2"
  for format in vis db vis,db html; do
    for _ in $(seq "$3"); do
      measure "$msprobe" graph "$folder/npu" "$folder/bench" -o "$data/out" --format "$format" --threads 2 -q
    done | sort -n | sed -n "$((($3 + 1) / 2))p" | line "$1" "$2" "$format"
  done
  watch
}

echo "load before: $(cut -d' ' -f1-3 /proc/loadavg)"
report 24010 1 5
if [ -n "$tool" ]; then
  # In a session of its own: the tool ends whatever is in its process group.
  measure setsid --wait "$tool" graph_visualize -tp "$data/graph_24010/npu" -gp "$data/graph_24010/bench" -o "$data/out" | line 24010 1 "Python tool"
fi
[ -n "${SMALL:-}" ] || report 500000 64 3
rm -rf "$data/out"
echo "load after: $(cut -d' ' -f1-3 /proc/loadavg)"
