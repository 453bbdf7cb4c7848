#!/usr/bin/env python3
"""Writes the table of what was fuzzed into docs/security.md, from what tools/dev/fuzz.sh left in build-fuzz.

usage: tools/dev/fuzz_table.py [--print] [REPOSITORY]

Executions are those of all calls together. Edges are counted by running the collected corpus once more, with the fuzzers of
build-fuzz-fast: branches of the compiled code of the files that the reader names in tests/fuzz/*.cmake, reached of all, as
SanitizerCoverage tells them. What is between these marks is replaced:

    <!-- fuzzed -->
    ...
    <!-- end of fuzzed -->

--print writes to the terminal only.
"""
import fnmatch
import os
import re
import subprocess
import sys
from pathlib import Path

PAGE = "docs/security.md"
FUZZERS = "build-fuzz-fast"   # without sanitizers, whose own branches would count
FOUND = "build-fuzz"
MARKS = re.compile(r"(<!-- fuzzed -->\n).*?(<!-- end of fuzzed -->)", re.S)
FUNCTION = re.compile(r"^(?:UN)?COVERED_FUNC: hits: \d+ edges: (\d+)/(\d+) (.*) (\S+?):\d+", re.M)
SYMBOLIZERS = ("/usr/lib/llvm-14/bin/llvm-symbolizer", "/usr/bin/llvm-symbolizer")


def edges(root, name, patterns):
    """(reached, all) in the files of `patterns`; None where the fuzzer cannot be run."""
    build = root / FUZZERS
    folders = [f for f in [str(root / FOUND / "corpus" / name), *(build / "seeds" / name).read_text().split("\n")] if os.path.isdir(f)]
    symbolizer = next((path for path in SYMBOLIZERS if os.path.exists(path)), "")
    environment = dict(os.environ, ASAN_SYMBOLIZER_PATH=symbolizer, UBSAN_SYMBOLIZER_PATH=symbolizer)
    run = subprocess.run([build / "bin" / f"fuzz_{name}", "-runs=0", "-print_coverage=1", *folders], env=environment, cwd=root,
                         capture_output=True, text=True, errors="replace", check=False)
    reached = {}
    for hit, total, function, file in FUNCTION.findall(run.stderr):
        file = os.path.relpath(file, root / "src") if file.startswith(str(root)) else file
        if any(fnmatch.fnmatchcase(file, pattern) for pattern in patterns):
            best = reached.get((file, function), (0, 0))
            reached[(file, function)] = max(best, (int(hit), int(total)))
    if run.returncode != 0 or not reached:
        print(f"{name}: exit status {run.returncode}, {len(reached)} functions", file=sys.stderr)
        return None
    return sum(hit for hit, _ in reached.values()), sum(total for _, total in reached.values())


def table(root):
    rows = ["| reader | its files below `src/` | executions | of them under the sanitizers | a second | edges reached | findings left |",
            "|---|---|---:|---:|---:|---:|---:|"]
    whole = checked = 0
    for results in sorted((root / FOUND / "results").iterdir()):
        name = results.name
        if not (root / FUZZERS / "readers" / name).exists():
            continue
        patterns = (root / FUZZERS / "readers" / name).read_text().split()
        counts = [line.split() for line in results.read_text().splitlines()]
        executions, seconds = sum(int(row[0]) for row in counts), sum(int(row[1]) for row in counts)
        sanitized = sum(int(row[0]) for row in counts if row[3:] != ["fuzz-fast"])
        whole += executions
        checked += sanitized
        reached = edges(root, name, patterns)
        percent = f"{reached[0]:,} of {reached[1]:,} ({100 * reached[0] // max(1, reached[1])} %)" if reached else "not counted"
        rate = f"{executions // seconds:,}" if seconds >= 10 else ""
        left = len(list((root / FOUND / "crashes").glob(f"{name}-*")))
        rows.append(f"| {name} | {', '.join(f'`{pattern}`' for pattern in patterns)} | {executions:,} | {sanitized:,} | "
                    f"{rate} | {percent} | {left} |")
    rows.append(f"| all | | {whole:,} | {checked:,} | | | |")
    return "\n".join(rows) + "\n"


def main():
    arguments = [word for word in sys.argv[1:] if word != "--print"]
    root = Path(arguments[0] if arguments else Path(__file__).parents[2]).resolve()
    text = table(root)
    if "--print" in sys.argv:
        print(text, end="")
        return 0
    page = root / PAGE
    old = page.read_text()
    new, count = MARKS.subn(lambda match: f"{match[1]}\n{text}\n{match[2]}", old)
    if count != 1:
        print(f"{PAGE} has no place for the table: {MARKS.pattern}", file=sys.stderr)
        return 1
    page.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main())
