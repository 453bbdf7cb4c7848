#!/usr/bin/env python3
"""Two builds of the program give the same results, byte by byte: whatever the tests of the command line call, with everything it says and
writes.

usage: same_results.py BUILD OTHER_BUILD [--emulator WORDS] [--tests BUILD] [--only REGEX] [--jobs N] [--keep FOLDER]

BUILD is the build folder of this machine, OTHER_BUILD another one, its program run by WORDS (`qemu-aarch64 -L ROOT`) where given. The
tests are those that ctest has for BUILD (or that of --tests, where BUILD is only a program and its package) and that call the program, each check.py of $MSPROBE_GOLDEN, and direct_calls.py. Each runs with
one program and then with the other, through recorder.py; a test must end as it does with the first program, and pass there if it is one
of ours. What may differ is listed in differences.py.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import differences

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
SECONDS = 3600
SHOWN_DIFFERENCES = 5

# Tests that are not about what the program writes, or that another machine's program cannot take part in.
LEFT_OUT = [
    (r"package\.", "about packages and the linked files"),
    (r"plan\.", "about the linked files"),
    (r"faults\.", "a library is loaded into the program that makes its calls fail"),
    (r".*\.browser$", "the same pages as the test .file, in a browser"),
    (r"perf_compare\.many_processes$", "which process compares a rank, and what an ended one leaves, is a matter of time"),
    (r"cli\.memory_limits$", "qemu needs more memory than these limits let it have"),
    (r"config_check\.pack_read_by_python$", "the packages are looked for below qemu's own root"),
    (r"general\.overwriting$", "calls at the same moment write into one folder: which of them gets which name is a matter of time"),
    (r"monitor_top\.terminal$", "on a terminal, which is not recorded; its lines are cut where the recorder's folders have long names"),
    (r"cli\.shared_runs$", "which process does what, what an ended one leaves, and who is late is a matter of time"),
    (r"cli\.chinese_screens$", "stands between the tests and the program itself"),
    (r"cli\.launcher$", "starts programs of this machine from the other's: nothing is written"),
]

# Tests that may end otherwise with the other program: a part of them is about what only this machine has. Their calls are compared.
MAY_END_OTHERWISE = [
    (r"cli\.(dump|run_ut)$|docs\.examples_and_links$", "qemu does not tell that a program could not be started"),
    (r"cli\.answer_forms$", "a part of it limits the memory to what the program needs, and the recorder needs more"),
    (r"cli\.doctor$", "starts programs of this machine, and the other's Python package is loaded by this machine's Python"),
]

# Calls whose answers are about the machine, or that MAY_END_OTHERWISE is about.
NOT_COMPARED = [
    (r" (doctor|devices)\b", "tell the processor, the memory and the libraries"),
    (r" config_check .*((?<!\S)(-d|--dump)\b|(?<![\w/])\w+\.zip)", "pack the environment and the packages of this machine, and read such packs"),
    (r" --watch\b", "follow a folder that grows meanwhile: what is seen there is a matter of time"),
    (r" dump .* -- no_such_program$| --python missing\b", "qemu does not tell that a program could not be started"),
]


class Test:
    def __init__(self, name, words, environment, ours):
        self.name, self.words, self.environment, self.ours = name, words, environment, ours


class Ended:
    def __init__(self, code, said, calls):
        self.code, self.said, self.calls = code, said, calls


def tests_of_build(build, place):
    """The tests of `place` that have the program among their words, which name `build`'s program instead."""
    program = str(place / "bin/msprobe")
    listing = json.loads(subprocess.run(["ctest", "--test-dir", str(place), "--show-only=json-v1"], stdout=subprocess.PIPE, check=True).stdout)
    for test in listing["tests"]:
        if program in test.get("command", []) and not any(re.match(pattern, test["name"]) for pattern, _ in LEFT_OUT):
            variables = next((item["value"] for item in test.get("properties", []) if item["name"] == "ENVIRONMENT"), [])
            def moved(text):
                return text.replace(str(place) + "/bin/", str(build) + "/bin/").replace(str(place) + "/python", str(build) + "/python")
            yield Test(test["name"], [moved(word) for word in test["command"]],
                       dict(moved(text).split("=", 1) for text in variables), True)


def further_tests(build, golden):
    program = str(build / "bin/msprobe")
    for script in sorted(golden.glob("*/check.py")):
        yield Test("check." + script.parent.name, ["/usr/bin/python3", str(script), program], {}, False)
    yield Test("direct_calls", ["/usr/bin/python3", str(HERE / "direct_calls.py"), program, str(REPOSITORY), str(golden)], {}, True)


class Comparison:
    def __init__(self, build, other, emulator, scratch):
        self.sides = [(build, [str(build / "bin/msprobe")]), (other, emulator + [str(other / "bin/msprobe")])]
        self.scratch = scratch

    def run(self, test):
        """[Ended with the first program, Ended with the second]"""
        return [self.run_side(test, side) for side in range(2)]

    def run_side(self, test, side):
        build, program = self.sides[side]
        folder = self.scratch / re.sub(r"[^\w.]", "_", test.name)
        # The same paths for both, in which paths in results are then equal.
        for part in ("bin", "tmp", "run"):
            shutil.rmtree(folder / part, ignore_errors=True)
            (folder / part).mkdir(parents=True)
        records = folder / ("records%d" % side)
        wrapper = folder / "bin/msprobe"
        wrapper.write_text("#!/usr/bin/python3 -IS\nimport sys\nsys.path.insert(0, %r)\nimport recorder\nrecorder.run(%r, %r, %r, sys.argv[1:])\n"
                           % (str(HERE), [shutil.which(program[0])] + program[1:], str(records), str(folder / "tmp")))
        wrapper.chmod(0o755)
        first = self.sides[0]
        words = [str(wrapper) if word == first[1][0] else word for word in test.words]
        environment = dict(os.environ, TMPDIR=str(folder / "tmp"), PYTHONPATH=str(HERE / "names"), OMP_NUM_THREADS="1")
        environment.update({name: value.replace(str(first[0]) + "/", str(build) + "/") for name, value in test.environment.items()})
        try:
            run = subprocess.run(words, cwd=str(folder / "run"), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, timeout=SECONDS, check=False)
            code, said = run.returncode, run.stdout.decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            code, said = "more than %d seconds" % SECONDS, ""
        (folder / ("output%d" % side)).write_text(said)
        shutil.rmtree(folder / "tmp", ignore_errors=True)
        return Ended(code, said, self.calls(records, folder))

    @staticmethod
    def calls(records, folder):
        """{(words of the call, how often before): folder of its record}"""
        found, often = {}, collections.Counter()
        for record in sorted(records.iterdir()) if records.is_dir() else []:
            if (record / "call.json").exists():  # else ended by SIGKILL
                call = json.loads((record / "call.json").read_text())
                words = differences.mask_text(" ".join([call["folder"]] + call["arguments"]).encode()).decode("utf-8", "replace")
                found[words.replace(str(folder), ""), often[words]] = (call, record)
                often[words] += 1
        return found


class Result:
    def __init__(self):
        self.calls = self.files = self.streams = 0
        self.differing = []

    def add(self, where, reason):
        self.differing.append("%s: %s" % (where, reason))


def compare_test(test, ended):
    result = Result()
    first, second = ended
    may = any(re.match(pattern, test.name) for pattern, _ in MAY_END_OTHERWISE)
    if not may and (second.code != first.code or (test.ours and first.code not in (0, 77))):
        result.add(test.name, "ends with %s and %s:\n%s" % (first.code, second.code, "\n".join(second.said.splitlines()[-30:])))
    for key in first.calls.keys() | second.calls.keys():
        if any(re.search(pattern, key[0]) for pattern, _ in NOT_COMPARED):
            continue
        where = "%s: %s" % (test.name, key[0][:300])
        if key not in first.calls or key not in second.calls:
            result.add(where, "called by the test with one program only")
            continue
        compare_calls(where, first.calls[key], second.calls[key], result)
    return result


def compare_calls(where, first, second, result):
    (call, folder), (other_call, other_folder) = first, second
    result.calls += 1
    if call["code"] != other_call["code"]:
        result.add(where, "exit code %s and %s" % (call["code"], other_call["code"]))
    for stream in ("stdout", "stderr"):
        result.streams += 1
        reason = differences.between(stream, (folder / stream).read_bytes(), (other_folder / stream).read_bytes())
        if reason:
            result.add(where, "%s: %s" % (stream, reason))
    files, others = (named_files(*item) for item in (first, second))
    for name in sorted(files.keys() | others.keys()):
        if name not in files or name not in others:
            # What no argument names was written by the shell, or by the next in a pipe: just before or just after the program's end.
            if set(Path(name).parts) & set(call["arguments"]):
                result.add(where, "%s: written by one program only" % name)
            continue
        result.files += 1
        reason = differences.between(name, files[name].read_bytes(), others[name].read_bytes())
        if reason:
            result.add(where, "%s: %s" % (name, reason))


def named_files(call, record):
    """{masked name: file}; names that are equal but for a time are counted."""
    named, often = {}, collections.Counter()
    for number, name in enumerate(call["files"]):
        masked = differences.mask_name(name)
        often[masked] += 1
        named[masked + (" (%d)" % often[masked] if often[masked] > 1 else "")] = record / ("file%d" % number)
    return named


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("--emulator", default="")
    parser.add_argument("--tests", type=Path, help="the build folder whose tests are run (default: BUILD)")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    build, other = options.build.resolve(), options.other.resolve()
    golden = Path(os.environ.get("MSPROBE_GOLDEN") or REPOSITORY.parent / "shared/golden").resolve()
    scratch = options.keep.resolve() if options.keep else Path(tempfile.mkdtemp(prefix="msprobe_same_")).resolve()
    scratch.mkdir(parents=True, exist_ok=True)
    comparison = Comparison(build, other, shlex.split(options.emulator), scratch)
    tests = [test for test in list(tests_of_build(build, (options.tests or build).resolve())) + list(further_tests(build, golden)) if re.search(options.only, test.name)]
    total, failed, ended_alike = Result(), 0, collections.Counter()
    try:
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for test, ended in zip(tests, pool.map(comparison.run, tests)):
                result = compare_test(test, ended)
                failed += bool(result.differing)
                ended_alike[str(ended[0].code) if ended[0].code == ended[1].code else "otherwise"] += 1
                print("%-8s %-45s %4d calls, %4d files" % ("differs" if result.differing else "same", test.name, result.calls, result.files))
                for text in result.differing[:SHOWN_DIFFERENCES]:
                    print("    " + text.replace("\n", "\n    "))
                if len(result.differing) > SHOWN_DIFFERENCES:
                    print("    and %d more" % (len(result.differing) - SHOWN_DIFFERENCES))
                sys.stdout.flush()
                for field in ("calls", "files", "streams"):
                    setattr(total, field, getattr(total, field) + getattr(result, field))
    finally:
        if not options.keep:
            shutil.rmtree(scratch, ignore_errors=True)
    for title, pairs in (("left out", LEFT_OUT), ("may end otherwise", MAY_END_OTHERWISE), ("calls not compared", NOT_COMPARED)):
        print(title + ": " + "; ".join("%s (%s)" % pair for pair in pairs))
    print("%d tests, %d with differences; %d calls, %d streams and %d files compared; tests by exit code: %s" %
          (len(tests), failed, total.calls, total.streams, total.files, dict(ended_alike)))
    return 1 if failed or not total.files else 0


if __name__ == "__main__":
    sys.exit(main())
