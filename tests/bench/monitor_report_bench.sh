#!/usr/bin/env bash
# Times `msprobe monitor report` and `top` on a generated run of a million rows of six statistics.
#
#   tests/bench/monitor_report_bench.sh [FOLDER]     FOLDER keeps the generated runs (default: a temporary one)
#
# Needs build/bin/msprobe with the page (tools/dev/build_web.sh). Median of five runs after one that is not counted, process start
# included. What the page needs in a browser is told by
#   python3 tests/cli/monitor_report_test.py build/bin/msprobe . browser
set -euo pipefail
. "$(dirname "$0")/common.sh"

# timed LABEL COMMAND...: median seconds and peak memory
timed() {
  local label=$1
  shift
  "$@" >/dev/null
  for _ in 1 2 3 4 5; do /usr/bin/env python3 - "$@" <<'PY'
import resource, subprocess, sys, time
begin = time.monotonic()
subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, check=True)
usage = resource.getrusage(resource.RUSAGE_CHILDREN)
print("%.3f %.2f %d" % (time.monotonic() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss // 1000))
PY
  done | sort -n | sed -n 3p | awk -v label="$label" '{ printf "%-44s %6.2f s  %5.2f s of processor  peak %4d MB\n", label, $1, $2, $3 }'
}

for shape in "500 1" "60 8"; do
  read -r modules ranks <<<"$shape"
  run=$data/run_${modules}_$ranks
  [ -e "$run.complete" ] || { python3 tests/bench/make_monitor_run.py "$run" --rows 1000000 --modules "$modules" --ranks "$ranks" >/dev/null && touch "$run.complete"; }
  timed "report, 1 M rows, $modules modules x $ranks ranks" "$msprobe" monitor report "$run" -o "$data/report.html"
  printf '%-44s %6.1f MB from %d MB of csv\n' "" "$(stat -c %s "$data/report.html" | awk '{ print $1 / 1e6 }')" "$(du -s --apparent-size -B1000000 "$run" | cut -f1)"
  timed "top --once, the same run" "$msprobe" monitor top "$run" --once
done
