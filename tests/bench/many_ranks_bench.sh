#!/usr/bin/env bash
# Times `msprobe compare` on a dump of many ranks, in one process and shared out over several.
#
#   tests/bench/many_ranks_bench.sh [--ranks N] [--rows N] [FOLDER]     FOLDER keeps the generated dumps (default: a temporary one)
#
# The ranks are made of eight different ones (tools/dev/make_compare_dumps.py), each changed in one number, so that no two are equal;
# by default 1,024 ranks of 20,000 rows, some 12 GB. Says elapsed and CPU seconds, the peak of one process, lines of the answer and files.
set -euo pipefail
ranks=1024
rows=20000
while [ "${1:-}" != "${1#--}" ]; do
  case $1 in
    --ranks) ranks=$2 ;;
    --rows) rows=$2 ;;
    *) echo "unknown argument $1" >&2; exit 2 ;;
  esac
  shift 2
done
. "$(dirname "$0")/common.sh"

[ -e "$data/ranks/.complete" ] || /usr/bin/python3 - "$data" "$ranks" "$rows" <<'PYTHON'
import shutil, subprocess, sys
from pathlib import Path
data, ranks, rows = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
kinds = []
for seed in range(min(8, ranks)):
    made = data / ("seed%d" % seed)
    subprocess.run([sys.executable, "tools/dev/make_compare_dumps.py", str(made), "statistics", "--rows", rows, "--seed", str(seed)], check=True)
    kinds.append({side: {file.name: file.read_bytes() for file in next((made / side).rglob("dump.json")).parent.glob("*.json")}
                  for side in ("npu", "bench")})
for rank in range(ranks):
    for side in ("npu", "bench"):
        folder = data / "ranks" / side / "step0" / ("rank%d" % rank)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in kinds[rank % len(kinds)][side].items():
            if name == "dump.json":
                at = text.index(b'"Max": ') + 7
                text = text[:at] + b"%d" % (1000 + rank) + text[text.index(b",", at):]
            (folder / name).write_bytes(text)
for seed in range(len(kinds)):
    shutil.rmtree(data / ("seed%d" % seed))
(data / "ranks/.complete").touch()
PYTHON

bytes=$(du -cb "$data"/ranks/*/step0/*/dump.json | tail -1 | cut -f1)
echo "$ranks ranks of $rows rows, $((bytes / 1000000)) MB of dump.json on both sides; $(nproc) cores"

measure() {  # label, command...
  local label=$1
  shift
  rm -rf "$data/out"
  /usr/bin/time -f '%e %U %S %M' -o "$data/time.txt" "$@" >"$data/answer.txt" 2>&1 || true
  awk -v label="$label" -v lines="$(wc -l <"$data/answer.txt")" -v files="$(find "$data/out" -type f | wc -l)" \
    '{printf "%-44s %7.1f s elapsed  %7.1f CPU s  peak %5.0f MB  %3d lines  %5d files\n", label, $1, $2 + $3, $4 / 1000, lines, files}' "$data/time.txt"
}

compare=("$msprobe" compare "$data/ranks/npu" "$data/ranks/bench" -o "$data/out")
measure "xlsx of all ranks" "${compare[@]}"
measure "xlsx, --only-leading" "${compare[@]}" --only-leading
measure "csv, differences only" "${compare[@]}" --format csv --only-diff
measure "html, --only-leading" "${compare[@]}" --format csv,html --only-leading
if command -v mpirun >/dev/null; then
  measure "mpirun -n 2, --only-leading" mpirun --allow-run-as-root --oversubscribe -n 2 "${compare[@]}" --only-leading --threads 1
fi
