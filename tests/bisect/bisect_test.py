#!/usr/bin/env python3
"""Does `msprobe bisect` name the change that was planted? Repositories, lock files and configurations with up to 64 changes.

usage: bisect_test.py MSPROBE [--cases N] [--first SEED] [-v]

The ordinary run has a few cases of each kind. --cases N makes N seeded ones: culprits, pairs, noise of known rates, runs that fail in
between, sides that behave alike. At least 95 % must be right, those without noise within ceil(log2(n)) + 2 runs, one that tries the change
alone, and repeats. What a repository holds is the same before and after, bit by bit.
"""
import argparse
import csv
import hashlib
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

GIT = dict(GIT_AUTHOR_NAME="a", GIT_AUTHOR_EMAIL="a@b", GIT_COMMITTER_NAME="a", GIT_COMMITTER_EMAIL="a@b", GIT_CONFIG_GLOBAL="/dev/null",
           GIT_CONFIG_SYSTEM="/dev/null")
# Prints what the changes come to: the sum of the effects of those that are there. A pair has one if both are.
PROGRAM = """import os, sys
sys.path.insert(0, os.getcwd())
values = {name: open("values/" + name).read().strip() for name in sorted(os.listdir("values"))}
if any(value == "broken" for value in values.values()):
    sys.exit("broken")
print("bad" if all(values.get(name) == "new" for name in %r) else "good")
"""
# Lies at a rate, by a seed and a count of its calls.
LIAR = """import random, sys
count = open(sys.argv[1]).read() if __import__("os").path.exists(sys.argv[1]) else ""
open(sys.argv[1], "w").write(count + "x")
is_bad = "bad" in sys.stdin.read()
false_bad, false_good = float(sys.argv[3]), float(sys.argv[4])
lot = random.Random(int(sys.argv[2]) * 1000003 + len(count)).random()
sys.exit(1 if (lot >= false_good if is_bad else lot < false_bad) else 0)
"""


def git(folder, *arguments):
    return subprocess.run(["git", *arguments], cwd=str(folder), env=dict(os.environ, **GIT), check=True, stdout=subprocess.PIPE,
                          universal_newlines=True).stdout.strip()


def repository(folder, count, members, broken=()):
    """`count` commits after the first, each sets a value of its own; those in `broken` break the program until the next."""
    folder.mkdir(parents=True)
    (folder / "values").mkdir()
    for number in range(1, count + 1):
        (folder / "values" / ("v%d" % number)).write_text("old\n")
    (folder / "values/state").write_text("fine\n")
    (folder / "train.py").write_text(PROGRAM % ["v%d" % member for member in members])
    # One stream for all commits: git is started a few times only.
    stream = []
    files = {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}

    def commit(number, changed):
        text = "change %d" % number
        stream.append("commit refs/heads/main\nmark :%d\ncommitter a <a@b> %d +0000\ndata %d\n%s\n" % (number + 1, 1700000000 + number, len(text), text))
        for name, content in changed.items():
            stream.append("M 100644 inline %s\ndata %d\n%s\n" % (name, len(content), content))
    commit(0, files)
    for number in range(1, count + 1):
        changed = {"values/v%d" % number: "new\n"}
        if number in broken:
            changed["values/state"] = "broken\n"
        elif number - 1 in broken:
            changed["values/state"] = "fine\n"
        commit(number, changed)
    git(folder, "init", "-q", "-b", "main")
    subprocess.run(["git", "fast-import", "--quiet"], cwd=str(folder), env=dict(os.environ, **GIT), input="".join(stream), universal_newlines=True,
                   check=True)
    git(folder, "reset", "-q", "--hard", "main")
    return git(folder, "rev-list", "--reverse", "main").split()


def content_of(folder):
    """Names, modes, times and sums of all files below, .git included."""
    found = {}
    for path in sorted(folder.rglob("*")):
        state = path.lstat()
        found[str(path)] = (state.st_mode, state.st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "")
    return found


class Case:
    def __init__(self, msprobe, root, kind, seed, count, members, rates=(0.0, 0.0), broken=(), alike=None, verbose=False):
        self.msprobe, self.root, self.kind, self.seed, self.count, self.members = msprobe, root, kind, seed, count, sorted(members)
        self.rates, self.broken, self.alike, self.verbose = rates, broken, alike, verbose
        self.output = root / "out"

    def __str__(self):
        return "%s seed %d: %d changes, planted %s, rates %s, broken %s, alike %s" % (self.kind, self.seed, self.count, self.members, self.rates,
                                                                                   sorted(self.broken), self.alike)

    def sides(self):
        """Arguments of the command, the folder to run it in, and the names of all changes."""
        liar = self.root / "liar.py"
        liar.write_text(LIAR)
        rates = self.rates if self.alike is None else (self.alike, 1 - self.alike)
        check = "python3 '%s' '%s' %d %g %g" % (liar, self.root / "count", self.seed, *rates)
        if self.kind == "commits":
            commits = repository(self.root / "repository", self.count, self.members, self.broken)
            return (["--good", commits[0], "--bad", "main", "--check", check, "--", "python3", "train.py"], self.root / "repository",
                    [commit[:10] for commit in commits[1:]])
        names = ["key_%02d" % number for number in range(1, self.count + 1)]
        good, bad = ({name: number * 10 + side for number, name in enumerate(names)} for side in (0, 1))
        program = self.root / "program.py"
        program.write_text("import json, os, sys\n"
                           "values = json.load(open(sys.argv[1]))['deep'] if len(sys.argv) > 1 else os.environ\n"
                           "print('bad' if all(int(values[name]) %% 10 == 1 for name in %r) else 'good')\n"
                           % [names[member - 1] for member in self.members])
        if self.kind == "settings":
            for side, values in (("good", good), ("bad", bad)):
                (self.root / (side + ".json")).write_text(json.dumps({"same": [1, 2], "deep": values}))
            command = ["--good", "good.json", "--bad", "bad.json", "--check", check, "--", "python3", str(program), "{config}"]
            names = ["deep." + name for name in names]
        else:
            for side, values in (("good", good), ("bad", bad)):
                (self.root / (side + ".env")).write_text("".join("%s=%d\n" % pair for pair in values.items()))
            command = ["--good", "good.env", "--bad", "bad.env", "--check", check, "--", "python3", str(program)]
        return ["--by", "settings"] + command, self.root, names

    def run(self):
        """What is wrong with the answer; empty: nothing."""
        arguments, folder, names = self.sides()
        before = content_of(folder) if self.kind == "commits" else None
        done = subprocess.run([self.msprobe, "bisect", "-o", str(self.output), "--json", "--quiet"] + arguments, cwd=str(folder),
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, check=False)
        if done.returncode != 0:
            return "exit code %d: %s" % (done.returncode, done.stderr[-600:])
        if before is not None and content_of(folder) != before:
            return "the repository is not what it was"
        answer = json.loads(done.stdout)
        word, text = answer["verdict"]["word"], answer["verdict"]["text"]
        with open(str(self.output / "bisect.csv"), newline="") as file:
            rows = list(csv.DictReader(file))
        repeats = sum(row["why"] == "repeat" for row in rows)
        extra = len(rows) - repeats - 2 - math.ceil(math.log2(self.count))
        self.said = word
        if self.verbose:
            print("%s -> %s; %d runs, %d repeats" % (self, text, len(rows), repeats), flush=True)
        if self.alike is not None:
            expected = "NOT REPRODUCED" if self.alike in (0, 1) else "FLAKY"
            return "" if word == expected else "%s expected, said: %s" % (expected, text)
        wanted = [names[member - 1] for member in self.members]
        expected = "CULPRIT" if len(wanted) == 1 else "PAIR"
        if word != expected or not all(name in text for name in wanted):
            return "%s %s expected, said: %s (%d runs, %d repeats)" % (expected, " ".join(wanted), text, len(rows), repeats)
        if len(wanted) == 1 and extra > 1 + len(self.broken) + (0 if self.rates == (0.0, 0.0) else self.count):
            return "%d runs for %d changes, %d of them repeats" % (len(rows), self.count, repeats)
        return ""


def random_case(msprobe, root, seed, verbose):
    lot = random.Random(seed)
    count = lot.choice([2, 3, 5, 8, 16, 33, 64, lot.randint(2, 64)])
    kind = lot.choice(["commits", "commits", "settings", "variables"])
    choice = lot.random()
    members = [lot.randint(1, count)]
    more = {}
    if choice < 0.25 and count > 2:
        members = lot.sample(range(1, count + 1), 2)
    elif choice < 0.5:
        more["rates"] = lot.choice([(0.0, 0.1), (0.0, 0.2), (0.05, 0.0), (0.02, 0.1), (0.0, 0.3)])
    elif choice < 0.6:
        more["alike"] = lot.choice([0, 1, 0.5, 0.4])
    elif choice < 0.7 and count > 8 and kind == "commits":
        more["broken"] = {number for number in lot.sample(range(2, count - 1), 2) if abs(number - members[0]) > 1 and abs(number + 1 - members[0]) > 1}
    return Case(msprobe, root, kind, seed, count, members, verbose=verbose, **more)


def pages(msprobe):
    """Formats that this build writes: the page is left out where it was built without."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([msprobe, "bisect", "--by", "settings", "--good", "a.json", "--bad", "b.json", "--format", "html", "--", "true"],
                              cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)
    return "csv" if "built without the page" in done.stdout else "csv,html"


def in_folder(make):
    with tempfile.TemporaryDirectory() as folder:
        case = make(Path(folder))
        problem = case.run()
        return case, problem


def killed_and_resumed(msprobe, root):
    """A search that is killed goes on, and makes no run twice."""
    commits = repository(root / "repository", 32, [20])
    log = root / "calls"
    check = "echo x >> '%s'; sleep 0.1; ! grep -q bad" % log
    command = [msprobe, "bisect", "--good", commits[0], "--bad", commits[-1], "--check", check, "-o", str(root / "out"), "--", "python3", "train.py"]
    before = content_of(root / "repository")
    first = subprocess.Popen(command, cwd=str(root / "repository"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    journal = root / "out/bisect_runs.jsonl"
    while first.poll() is None and (not journal.exists() or journal.read_text().count("\n") < 4):
        time.sleep(0.01)
    assert first.poll() is None, "it ended before it was killed"
    first.send_signal(signal.SIGKILL)
    first.wait()
    made = journal.read_text().count('"verdict"')
    with open(str(journal), "a") as file:
        file.write('{"changes": "1-')  # a line that was not finished
    assert content_of(root / "repository") == before
    # Of other sides: refused.
    other = subprocess.run(command[:5] + [commits[-2]] + command[6:], cwd=str(root / "repository"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           universal_newlines=True, check=False)
    assert other.returncode == 2 and "unfinished" in other.stdout, other.stdout
    done = subprocess.run(command, cwd=str(root / "repository"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)
    assert done.returncode == 0 and "CULPRIT: " + commits[20][:10] in done.stdout and "from before" in done.stdout, done.stdout
    with open(str(root / "out/bisect.csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    calls = log.read_text().count("x")
    # The run that was killed may have asked the check already.
    assert made >= 3 and calls in (len(rows), len(rows) + 1), (made, calls, len(rows))
    assert not journal.exists() and not (root / "out/.msprobe_bisect_work").exists()
    assert content_of(root / "repository") == before
    again = subprocess.run(command, cwd=str(root / "repository"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)
    assert again.returncode == 2 and "exists" in again.stdout, again.stdout


def default_output_is_not_seen(msprobe, root):
    """In the checkout itself, with work in progress: git sees no difference, and neither side's files change."""
    commits = repository(root / "repository", 5, [3])
    (root / "repository/values/v1").write_text("being edited\n")
    (root / "repository/untracked").write_text("mine\n")
    (root / "repository/sub folder").mkdir()
    before = [git(root / "repository", *arguments) for arguments in (("status", "--porcelain"), ("for-each-ref",), ("worktree", "list"), ("config", "-l"))]
    index = (root / "repository/.git/index").read_bytes()
    done = subprocess.run([msprobe, "bisect", "--by", "commits", "--good", "HEAD~5", "--bad", "HEAD", "--check", "! grep -q bad", "--format", pages(msprobe),
                           "--", "python3", "train.py"], cwd=str(root / "repository"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True, check=False)
    assert done.returncode == 0 and "CULPRIT: %s change 3" % commits[3][:10] in done.stdout, done.stdout
    assert (root / "repository/msprobe_bisect_output/bisect.html").exists() == ("html" in pages(msprobe))
    assert (root / "repository/.git/index").read_bytes() == index
    after = [git(root / "repository", *arguments) for arguments in (("status", "--porcelain"), ("for-each-ref",), ("worktree", "list"), ("config", "-l"))]
    assert after == before, (before, after)


def names_reach_no_shell(msprobe, root):
    repository(root / "repository", 3, [2])
    (root / "repository/.git/hooks").mkdir(exist_ok=True)
    hook = root / "repository/.git/hooks/post-checkout"
    hook.write_text("#!/bin/sh\ntouch '%s'\n" % (root / "ran"))
    hook.chmod(0o755)
    git(root / "repository", "config", "core.hooksPath", str(hook.parent))
    for good in ("--upload-pack=touch %s" % (root / "ran"), "$(touch %s)" % (root / "ran"), "`touch %s`" % (root / "ran"), "no such"):
        done = subprocess.run([msprobe, "bisect", "--good=" + good, "--bad", "main", "--check", "true", "-o", str(root / "out"), "--", "true"],
                              cwd=str(root / "repository"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)
        assert done.returncode in (2, 3), done.stdout
    done = subprocess.run([msprobe, "bisect", "--good", "main~3", "--bad", "main", "--check", "! grep -q bad", "-o", str(root / "out"), "--", "python3",
                           "train.py"], cwd=str(root / "repository"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)
    assert done.returncode == 0 and "CULPRIT" in done.stdout, done.stdout
    assert not (root / "ran").exists(), "something of the repository was run"
    for line in ("-r more.txt", "--index-url https://x/simple", "-e .", "numpy", "a==1 --hash=sha256:0 --index-url=x", "./a.whl", "a @ git+https://x"):
        (root / "lock.txt").write_text("# a lock\nb==1\n%s\n" % line)
        done = subprocess.run([msprobe, "bisect", "--by", "packages", "--good", "lock.txt", "--bad", "lock.txt", "-o", "packages", "--check", "true", "--",
                               "true"], cwd=str(root), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, check=False)
        assert done.returncode != 0 and "lock.txt line 3" in done.stdout, (line, done.stdout)


def wheel(folder, name, version, text):
    record = "%s-%s.dist-info" % (name, version)
    with zipfile.ZipFile(str(folder / ("%s-%s-py3-none-any.whl" % (name, version))), "w") as archive:
        archive.writestr(name + ".py", text)
        archive.writestr(record + "/METADATA", "Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (name, version))
        archive.writestr(record + "/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(record + "/RECORD", "")


def package_is_found(msprobe, root, members=(4,), count=6):
    """Packages of our own, from a folder: no network."""
    made = subprocess.run([sys.executable, "-m", "venv", str(root / "probe")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    if made.returncode != 0 or subprocess.run(["python3", "-m", "venv", str(root / "probe2")], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                              check=False).returncode != 0:
        print("packages: left out, python3 -m venv makes no environment here")
        return
    (root / "wheels").mkdir()
    names = ["bisected_%d" % number for number in range(1, count + 1)]
    for name in names:
        for version in ("1.0", "2.0"):
            wheel(root / "wheels", name, version, "VERSION = %r\n" % version)
    (root / "good.txt").write_text("".join("%s==1.0\n" % name for name in names) + "# the end\n")
    (root / "bad.txt").write_text("".join("%s==2.0 ; python_version > '3.0'\n" % name for name in names))
    (root / "program.py").write_text("import importlib\nprint('bad' if all(importlib.import_module(n).VERSION == '2.0' for n in %r) else 'good')\n"
                                     % [names[member - 1] for member in members])
    done = subprocess.run([msprobe, "bisect", "--by", "packages", "--good", "good.txt", "--bad", "bad.txt", "--check", "! grep -q bad", "--no-index",
                           "--find-links", "wheels", "-o", "out", "--repeats", "0", "--", "python3", "program.py"], cwd=str(root), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, universal_newlines=True, check=False)
    wanted = "CULPRIT" if len(members) == 1 else "PAIR"
    normal = [names[member - 1].replace("_", "-") for member in members]
    assert done.returncode == 0 and wanted + ": " in done.stdout and all("%s: 1.0 -> 2.0" % name in done.stdout for name in normal), done.stdout


def secrets_are_masked(msprobe, root):
    (root / "good.yaml").write_text("model: {api_key: sk-aaaabbbbccccddddeeee1111, size: 1}\n")
    (root / "bad.yaml").write_text("model: {api_key: sk-aaaabbbbccccddddeeee2222, size: 1}\n")
    done = subprocess.run([msprobe, "bisect", "--by", "settings", "--good", "good.yaml", "--bad", "bad.yaml", "--check", "! grep -q 2222", "-o", "out",
                           "--format", pages(msprobe), "--", "cat", "{config}"], cwd=str(root), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True, check=False)
    assert done.returncode == 0 and "CULPRIT: model.api_key: *** -> ***" in done.stdout, done.stdout
    shown = done.stdout + "".join(path.read_text() for path in (root / "out").glob("bisect.*"))
    assert "eeee1111" not in shown and "eeee2222" not in shown, "a secret is shown"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("msprobe")
    parser.add_argument("--cases", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("-v", action="store_true")
    arguments = parser.parse_args()
    msprobe = str(Path(arguments.msprobe).resolve())
    if arguments.cases:
        wrong, runs = 0, {}
        for seed in range(arguments.first, arguments.first + arguments.cases):
            case, problem = in_folder(lambda root, seed=seed: random_case(msprobe, root, seed, arguments.v))
            family = "alike" if case.alike is not None else "noise" if case.rates != (0.0, 0.0) else "pair" if len(case.members) > 1 else "broken" \
                if case.broken else "culprit"
            runs.setdefault(family, []).append(not problem)
            if problem:
                wrong += 1
                print("%s: %s" % (case, problem), flush=True)
        for family, right in sorted(runs.items()):
            print("%-8s %d of %d right" % (family, sum(right), len(right)))
        print("%d of %d right" % (arguments.cases - wrong, arguments.cases))
        return 1 if wrong > 0.05 * arguments.cases else 0
    fixed = [
        dict(kind="commits", seed=1, count=13, members=[7]),
        dict(kind="commits", seed=2, count=8, members=[2, 6]),
        dict(kind="commits", seed=3, count=16, members=[11], broken={4, 8}),
        dict(kind="settings", seed=4, count=64, members=[41]),
        dict(kind="settings", seed=5, count=20, members=[5, 17]),
        dict(kind="variables", seed=6, count=9, members=[9]),
        dict(kind="settings", seed=7, count=32, members=[10], rates=(0.0, 0.2)),
        dict(kind="settings", seed=8, count=4, members=[1], alike=0.5),
        dict(kind="commits", seed=9, count=4, members=[1], alike=0),
        dict(kind="settings", seed=10, count=4, members=[1], alike=1),
    ]
    for options in fixed:
        case, problem = in_folder(lambda root, options=options: Case(msprobe, root, verbose=arguments.v, **options))
        assert not problem, "%s: %s" % (case, problem)
    for check in (killed_and_resumed, default_output_is_not_seen, names_reach_no_shell, package_is_found, secrets_are_masked):
        with tempfile.TemporaryDirectory() as folder:
            check(msprobe, Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
