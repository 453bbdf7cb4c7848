#!/usr/bin/env python3
"""Runs golden transcripts: what a user types, and what must come back.

usage: transcript_test.py MSPROBE REPOSITORY FILE.test...

A file holds cases. Each runs in an empty scratch folder of its own, with msprobe on the PATH, $EXAMPLE (the example pair's
folder) and $DATA (tests/data) set:

    == A sentence that says what is shown
    $ msprobe compare $EXAMPLE/npu $EXAMPLE/bench -o out
    exit 0
    stdout has: a text
    file out/compare_result_*.xlsx

"$ " lines run in bash, in one folder, one after another; the checks below a command are about that command:
    exit N                      its exit status; 0 when this line is absent
    stdout|stderr has: TEXT     one line holds TEXT
    stdout|stderr lacks: TEXT   no line does
    stdout|stderr matches: RE   somewhere, lines joined, ^ and $ at line ends
    stdout|stderr empty
    stdout|stderr is:           exactly the indented lines that follow
    file GLOB                   such a file exists;  "file GLOB has: TEXT" / "file GLOB lacks: TEXT" also look inside
    no file GLOB                none does
"needs pages" below the sentence: the case is skipped where msprobe was built without its pages (page_tests.py says why that may be).
"#" begins a comment line.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import page_tests  # noqa: E402

TIMEOUT_SECONDS = 120


class Case:
    def __init__(self, title, number):
        self.title = title
        self.number = number
        self.needs_pages = False
        self.steps = []  # [command, line number, [(line number, check, indented lines)]]


def parse(path):
    cases = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        where = "%s:%d" % (path.name, number)
        if line.startswith("== "):
            cases.append(Case(line[3:], number))
        elif line.startswith("$ ") and cases:
            cases[-1].steps.append([line[2:], number, []])
        elif line.startswith("    ") and cases and cases[-1].steps and cases[-1].steps[-1][2]:
            cases[-1].steps[-1][2][-1][2].append(line[4:])
        elif line.strip() == "" or line.startswith("#"):
            continue
        elif line.rstrip() == "needs pages" and cases and not cases[-1].steps:
            cases[-1].needs_pages = True
        elif cases and cases[-1].steps:
            cases[-1].steps[-1][2].append((number, line.rstrip(), []))
        else:
            sys.exit("%s: a check without a command: %s" % (where, line))
    return cases


def check_stream(name, rest, text, indented):
    """None when the stream is as wanted, otherwise the reason."""
    if rest == "empty":
        return None if text == "" else "%s is not empty" % name
    if rest == "is:":
        return None if text.splitlines() == indented else "%s is different" % name
    verb, _, wanted = rest.partition(": ")
    found = any(wanted in line for line in text.splitlines())
    if verb == "has":
        return None if found else "%s lacks %r" % (name, wanted)
    if verb == "lacks":
        return "%s has %r" % (name, wanted) if found else None
    if verb == "matches":
        return None if re.search(wanted, text, re.M) else "%s does not match %s" % (name, wanted)
    return "unknown check"


def check_files(rest, folder, absent):
    match = re.fullmatch(r"(\S+)(?: (has|lacks): (.*))?", rest)
    if match is None:
        return "unknown check"
    pattern, verb, wanted = match.groups()
    files = [path for path in folder.glob(pattern) if path.exists()]
    if absent:
        return "there is %s" % files[0].relative_to(folder) if files else None
    if not files:
        there = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
        return "no file %s; there are: %s" % (pattern, ", ".join(there[:20]) or "none")
    if verb:
        holding = [path for path in files if wanted in path.read_bytes().decode("utf-8", "replace")]
        if (verb == "has") != bool(holding):
            return "%s %s %r" % (pattern, "lacks" if verb == "has" else "has", wanted)
    return None


def run_case(case, environment):
    """Reasons why the case failed, with the output that shows them."""
    reasons = []
    with tempfile.TemporaryDirectory(prefix="msprobe_cli_") as scratch:
        folder = Path(scratch).resolve()
        for command, number, checks in case.steps:
            run = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=TIMEOUT_SECONDS, check=False)
            stdout, stderr = (text.decode("utf-8", "replace") for text in (run.stdout, run.stderr))
            before = len(reasons)
            wanted_exit = 0
            for line, check, indented in checks:
                kind, _, rest = check.partition(" ")
                if kind == "exit":
                    wanted_exit = int(rest)
                    continue
                if kind in ("stdout", "stderr"):
                    reason = check_stream(kind, rest, stdout if kind == "stdout" else stderr, indented)
                elif check.startswith("no file "):
                    reason = check_files(check[len("no file "):], folder, absent=True)
                elif kind == "file":
                    reason = check_files(rest, folder, absent=False)
                else:
                    reason = "unknown check"
                if reason:
                    reasons.append("line %d, %s: %s" % (line, check, reason))
            # bash reports a command ended by a signal as 128 + signal; Popen of bash -c with a single command as -signal.
            code = run.returncode if run.returncode >= 0 else 128 - run.returncode
            if code != wanted_exit:
                reasons.append("line %d: exit status %d, expected %d" % (number, code, wanted_exit))
            if len(reasons) > before:
                reasons.append("  $ %s" % command)
                reasons += ["  | " + text for text in (stdout + stderr).splitlines()[-40:]]
    return reasons


def main():
    msprobe, repository = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    failed = skipped = total = 0
    pages = None  # asked for by the first case that needs them
    with tempfile.TemporaryDirectory(prefix="msprobe_bin_") as bin_folder:
        os.symlink(msprobe, os.path.join(bin_folder, "msprobe"))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MSPROBE_")}
        environment.update(PATH="%s:%s" % (bin_folder, os.environ["PATH"]), EXAMPLE=str(repository / "docs/example"),
                           DATA=str(repository / "tests/data"), LC_ALL="C.UTF-8", TERM="dumb")
        for file in map(Path, sys.argv[3:]):
            for case in parse(file):
                total += 1
                if case.needs_pages:
                    pages = page_tests.has_pages(msprobe) if pages is None else pages
                    if not pages:
                        skipped += 1
                        print("skipped %s:%d %s: this msprobe was built without its pages" % (file.name, case.number, case.title))
                        continue
                reasons = run_case(case, environment)
                failed += bool(reasons)
                print("%s %s:%d %s" % ("FAILED" if reasons else "ok    ", file.name, case.number, case.title))
                for reason in reasons:
                    print("    " + reason)
    print("transcripts: %d of %d cases passed%s" % (total - failed - skipped, total, ", %d skipped" % skipped if skipped else ""))
    return 1 if failed or total == 0 else 0


if __name__ == "__main__":
    assert shutil.which("bash"), "transcripts are written for bash"
    sys.exit(main())
