#!/usr/bin/env python3
"""Runs the tests that need frameworks Debian does not have, each in a virtual environment made from its lock file.

usage: tests/frameworks/run.py [--quick] [--update] [--python PYTHON] [--jobs N] [--list] [NAME...]

NAME: frameworks of frameworks.txt, default all; NAME/FILE runs one test file. --quick: what continuous integration runs.
--update: results go to results/ and into the table of docs/compatibility.md; otherwise a result that is worse than the one
that stands there is a failure. A framework that cannot be installed is skipped by name. --python: an interpreter that has the
framework already, for instance Debian's /usr/bin/python3 with PyTorch 1.13; nothing is installed then.

MSPROBE_FRAMEWORKS: folder of the environments (default build-frameworks). They are made once, with pip as it is set up here.
"""
import argparse
import collections
import concurrent.futures
import fcntl
import glob
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time

import results

HERE = os.path.dirname(os.path.abspath(__file__))
REPOSITORY = os.path.dirname(os.path.dirname(HERE))
PYTHON = "/usr/bin/python3"   # the interpreter of the lock files
SKIPPED = 77

# ---- environments ----

def text_of_lock(name):
    """The lines of a lock file and of those it adds to."""
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        text = file.read()
    return "".join(text_of_lock(base) for base in re.findall(r"^-r +(\S+)$", text, re.MULTILINE)) + text


def make_environment(folder, lock):
    """"" when everything of the lock file is installed in the environment, or why it is not."""
    python = os.path.join(folder, "bin", "python")
    mark = os.path.join(folder, os.path.splitext(lock)[0] + ".sha256")
    wanted = hashlib.sha256(text_of_lock(lock).encode()).hexdigest()
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with open(folder + ".lock", "w", encoding="ascii") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if os.path.exists(mark):
            with open(mark, encoding="ascii") as file:
                if file.read() == wanted:
                    return ""
        print("== installing %s into %s" % (lock, folder), flush=True)
        if not os.path.exists(python):
            made = subprocess.run([PYTHON, "-m", "venv", folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if made.returncode != 0:
                return "no virtual environment: " + made.stdout.decode(errors="replace").strip()[-300:]
        begin = time.monotonic()
        run = subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--require-hashes",
                              "--only-binary", ":all:", "-r", os.path.join(HERE, lock)],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
        if run.returncode != 0:
            errors = [line for line in run.stdout.decode(errors="replace").splitlines() if line.startswith("ERROR")]
            return "pip cannot install %s: %s" % (lock, (errors or ["no message"])[-1])
        print("== installed in %.0f s" % (time.monotonic() - begin), flush=True)
        with open(mark, "w", encoding="ascii") as file:
            file.write(wanted)
    return ""


# ---- tests ----

def test_files(framework, wanted, quick):
    """Files of tests of this framework, with those of the shim for PyTorch or MindSpore, whatever its version."""
    folder = os.path.join(REPOSITORY, "tests", "python")
    found = sorted(glob.glob(os.path.join(folder, "frameworks", framework.name, "*_test.py")))
    if not quick:  # those of the shim
        found += sorted(glob.glob(os.path.join(folder, framework.name, "*_test.py")))
    return [path for path in found if not wanted or os.path.basename(path) in wanted]


def run_test(python, path, answers, quick):
    golden = os.environ.get("MSPROBE_GOLDEN", os.path.join(os.path.dirname(REPOSITORY), "shared", "golden"))
    environment = dict(os.environ, PYTHONPATH=os.path.join(REPOSITORY, "build", "python"), OMP_NUM_THREADS="1",
                       MSPROBE=os.path.join(REPOSITORY, "build", "bin", "msprobe"), MSPROBE_GOLDEN=golden,
                       MSPROBE_FRAMEWORK_RESULTS=answers,
                       PATH=os.path.dirname(python) + os.pathsep + os.environ["PATH"])
    if quick:
        environment["MSPROBE_QUICK"] = "1"
    if python != PYTHON:
        environment["MSPROBE_OTHER_PYTHON"] = PYTHON   # files of one version are read by another
    begin = time.monotonic()
    run = subprocess.run([python, path], cwd=REPOSITORY, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return run.returncode, run.stdout.decode(errors="replace"), time.monotonic() - begin


def last_line(output):
    lines = output.strip().splitlines()
    return lines[-1] if lines else "no output"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--python")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    known = {framework.name: framework for framework in results.frameworks()}
    if options.list:
        for framework in known.values():
            print(framework.name, framework.environment, framework.lock)
        return 0
    asked = {}
    for text in options.names:
        name, _, file = text.partition("/")
        if name not in known:
            sys.exit("error: no framework \"%s\"\n  known: %s" % (name, " ".join(known)))
        asked.setdefault(name, []).extend([file] if file else [])
    chosen = [framework for framework in known.values()
              if (framework.name in asked if asked else True) and (framework.quick or not options.quick)]
    if not os.path.exists(os.path.join(REPOSITORY, "build", "python", "msprobe")):
        sys.exit("error: build/python is missing\n  hint: tools/test.sh builds it")
    base = os.environ.get("MSPROBE_FRAMEWORKS", os.path.join(REPOSITORY, "build-frameworks"))
    counts = collections.Counter()
    jobs = []
    for framework in chosen:
        folder = os.path.join(base, framework.environment)
        python = options.python or os.path.join(folder, "bin", "python")
        reason = "" if options.python else make_environment(folder, framework.lock)
        if not reason:
            own = os.path.join(REPOSITORY, "tests", "python", "frameworks", framework.name)
            found = subprocess.run([python, "-c", "import " + framework.module], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, env=dict(os.environ, PYTHONPATH=own))
            if found.returncode != 0:
                reason = last_line(found.stdout.decode(errors="replace"))
        if reason:
            print("-- skipped: %s (%s)" % (framework.name, reason), flush=True)
            counts["skipped"] += 1
            continue
        files = test_files(framework, asked.get(framework.name), options.quick)
        if not files:
            print("-- skipped: %s (no tests)" % framework.name, flush=True)
            counts["skipped"] += 1
        jobs += [(framework, python, path) for path in files]
    with tempfile.TemporaryDirectory(prefix="msprobe_frameworks_") as answers:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            running = {pool.submit(run_test, python, path, answers, options.quick): (framework, path)
                       for framework, python, path in jobs}
            for future in concurrent.futures.as_completed(running):
                framework, path = running[future]
                status, output, seconds = future.result()
                word = {0: "passed", SKIPPED: "skipped"}.get(status, "failed")
                counts[word] += 1
                if word == "failed":
                    print(output)
                print("-- %s: %s/%s, %.0f s%s" % (word, framework.name, os.path.basename(path), seconds,
                                                  " (%s)" % last_line(output) if word == "skipped" else ""), flush=True)
        found = results.collect(answers)
    if options.update:
        results.store(found)
        results.write_table()
    else:
        for line in results.worse(found):
            print("-- worse than docs/compatibility.md says: " + line)
            counts["failed"] += 1
    print("tests with real frameworks: %d passed, %d failed, %d skipped" % (counts["passed"], counts["failed"], counts["skipped"]))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
