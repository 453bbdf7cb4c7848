#!/usr/bin/env python3
"""Makes the k-th call into the system fail, for every k, for every command, and judges what the command makes of it.

usage: sweep.py MSPROBE INJECTOR REPOSITORY [--quick | --every] [--command NAME]... [--call FAMILY]... [--how HOW] [--at K] [--record FILE]
       sweep.py --table FILE...

See README.md beside it for the rules and for running one case alone.
"""
import argparse
import collections
import concurrent.futures
import errno
import hashlib
import io
import json
import os
import queue
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import commands

SECONDS = 20  # a run that takes longer hangs

# What may go wrong in a family of calls: an errno or "short"; "+": so it stays for all later calls of the family.
HOWS = {
    "open": ["EIO", "EACCES", "EMFILE+", "ENOSPC"],
    "read": ["EIO", "EIO+", "EINTR", "short", "short+"],
    "write": ["EIO", "ENOSPC+", "EINTR", "short", "short+", "stop"],
    "map": ["ENOMEM", "ENODEV+"],
    "rename": ["EIO", "ENOSPC+", "EINVAL+", "stop"],
    "sync": ["EIO", "EINVAL+"],
    "folder": ["EACCES", "ENOSPC+"],
    "list": ["EIO", "EMFILE+"],
    "remove": ["EBUSY"],
    "stat": ["EIO", "EACCES+"],
    "close": ["EIO", "EDQUOT+"],
    "size": ["ENOSPC+", "EOPNOTSUPP+"],
    "lock": ["ENOLCK+"],
    "thread": ["EAGAIN", "EAGAIN+"],
    "memory": ["ENOMEM", "ENOMEM+"],
    "spawn": ["EAGAIN", "ENOMEM+"],
    "print": ["ENOSPC", "ENOSPC+"],
    "socket": ["EIO", "EINTR", "ENOMEM+", "short", "short+"],
}
# Where the process may end by SIGKILL: in front of every call that changes a file, and in the middle of those that write.
KILLS = {call: ["kill"] for call in ("open", "rename", "folder", "remove", "close", "size", "lock", "sync")}
KILLS["write"] = ["kill", "torn"]
# Where the numbers of calls go into the thousands: all of the first, then so many over the rest.
FIRST, SPREAD = 400, 400
QUICK_FIRST, QUICK_SPREAD = 1, 1

# What is as it should be all the same: commands, families of calls, what is said of it, and why.
ACCEPTED = [
    ("devices", "open read memory", "another answer",
     "the name of the processor and the limits of the container are left out where they cannot be read"),
    ("dump( --check| ctl)?|free_benchmark|isolate|monitor run", "stat memory", "exit code 2: .*dump_path", "a dump_path that cannot be used is a wrong configuration"),
    ("bisect", "open read write close map stat list memory rename folder sync size lock spawn", r"left over: \.msprobe_bisect_work|too much: out/bisect_runs\.jsonl",
     "a search that did not end goes on from there when the command is given again"),
    ("dump", "remove", "too much: d/", "an empty folder, which was made to see whether it can be written; a warning names it"),
    ("msaccucmp compare", "open read map stat list memory", "exit code 11",
     "the vendor's code where no tensor could be compared: the answer names the file and what is wrong with it"),
    ("msaccucmp convert", "open read write close map stat list memory rename folder", r"too much: out/convert_failed_file_list\.txt",
     "it names the files that could not be converted"),
    ("(multi_)?(acc_check|run_ut)", "write", "not complete: out/accuracy_checking_",
     "both tables grow operator by operator; a run that goes on with them (-csv_path) cuts the unfinished row"),
    ("config_check -c|monitor replay", "open list memory", r"left over: \.msprobe-staging",
     "where the comparison fails, too: a folder cannot be emptied by a process that can open nothing, or that gets no memory for its "
     "names; the next command does it"),
]

# Names that nothing is left under.
UNFINISHED = re.compile(r"(^|/)\.msprobe|\.tmp$|\.partial$|\.reserved$")


# How long a run took stands in some results, and how much of the disk others have left in that of `doctor`.
FROM_RUN_TO_RUN = re.compile(rb'"\w*seconds": [0-9.e-]+| time="[0-9.]+"|[0-9.]+ [kMGT]B free|(?<=,)[0-9.]+(?=,\d{3}\.txt)')


def digest_of(data, folder):
    """Equal for files that say the same; `folder` is where this run was."""
    if data.startswith(b"PK"):
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                data = b"".join(name.encode() + archive.read(name) for name in archive.namelist())
        except zipfile.BadZipFile:
            pass
    return hashlib.sha1(FROM_RUN_TO_RUN.sub(b"", data.replace(folder, b""))).hexdigest()


def outcome_of_tree(folder, before):
    """{path: digest} of what is in the folder and was not there before, folders with ""."""
    found = {}
    for root, folders, files in os.walk(folder):
        for name in folders:
            path = os.path.join(root, name)
            found[os.path.relpath(path, folder) + "/"] = ""
        for name in files:
            path = os.path.join(root, name)
            # Files of events are counted in the order in which threads come to them.
            name = re.sub(r"(tfevents.*)\.\d+$", r"\1", os.path.relpath(path, folder))
            with open(path, "rb") as file:
                found[name] = digest_of(file.read(), os.path.dirname(folder).encode())
    return {path: digest for path, digest in found.items() if before.get(path) != digest}


def is_whole(path):
    """Whether a file that may say something else than it would have is at least a complete one of its kind."""
    try:
        ending = path.suffix
        if ending == ".json":
            json.loads(path.read_text())
        elif ending in (".xlsx", ".zip"):
            with zipfile.ZipFile(str(path)) as archive:
                return archive.testzip() is None
        elif ending == ".db":
            with sqlite3.connect("file:%s?mode=ro" % path, uri=True) as database:
                return database.execute("pragma integrity_check").fetchone() == ("ok",)
        elif ending in (".csv", ".txt", ".log"):
            return path.read_bytes()[-1:] in (b"\n", b"")
        elif ending in (".html", ".xml"):
            return path.read_text().rstrip().endswith(">")
        return True
    except (OSError, ValueError, zipfile.BadZipFile, sqlite3.Error):
        return False


class Done:
    def __init__(self, code, out, errors, tree, counts, hits, folder):
        self.code, self.out, self.errors, self.tree, self.counts, self.hits, self.folder = code, out, errors, tree, counts, hits, folder


class Sweep:
    def __init__(self, msprobe, injector, repository):
        self.msprobe, self.injector = str(Path(msprobe).resolve()), str(Path(injector).resolve())
        self.root = Path(tempfile.mkdtemp(prefix="msprobe_faults_", dir=os.environ.get("FAULT_SCRATCH"))).resolve()
        self.places = commands.make_places(Path(repository).resolve(), self.root)
        # PATH names two: a first one that cannot be looked at is no reason to take the second.
        self.bin = self.root / "bin"
        self.bin.mkdir()
        (self.bin / "python3").symlink_to(shutil.which("python3"))
        self.folders = queue.Queue()
        self.cores = sorted(os.sched_getaffinity(0))
        for number in range(len(self.cores)):
            self.folders.put((self.root / ("scratch%d" % number), self.cores[number]))
        self.breaches = collections.OrderedDict()  # (command, call, how, what) -> [k...]
        self.runs = 0
        self.every = False  # no samples of the allocations

    def environment(self, **more):
        kept = {key: value for key, value in os.environ.items()
                if not key.startswith(("MSPROBE_", "LC_", "LANG", "NO_COLOR", "FAULT_"))}
        kept.update(PATH="%s:%s" % (self.bin, kept["PATH"]), TERM="dumb", LC_ALL="C.UTF-8", MSPROBE_PYTHON_PATH="py",
                    LD_PRELOAD=self.injector, PYTHONDONTWRITEBYTECODE="1")
        kept.update(more)
        return kept

    def run(self, line, keep=False, one_core=True, **faults):
        """One run in a scratch folder of its own; one that was killed has what came after it as `again`."""
        place = self.folders.get()
        folder, core = place
        try:
            shutil.rmtree(str(folder), ignore_errors=True)
            (folder / "work/out").mkdir(parents=True)
            work = folder / "work"
            if line.prepare:
                line.prepare(self.places, work)
            before = outcome_of_tree(str(work), {})
            words = commands.words_of(line, self.places)
            done = self.run_in(folder, core if one_core else None, words, before, faults)
            done.again = None
            if done.code == -9 and faults.get("how") in ("kill", "torn"):
                done.again = self.run_in(folder, core if one_core else None, words, before, {})
                if done.again.code != 0 and line.forces:
                    done.again = self.run_in(folder, core if one_core else None, [*words, "--force"], before, {})
            if keep:
                shutil.rmtree(keep, ignore_errors=True)
                shutil.copytree(str(work), keep)
            return done
        finally:
            self.folders.put(place)

    def run_in(self, folder, core, words, before, faults):
        """One run in a folder that may hold what another has left; `before`: what is no result."""
        work, report = folder / "work", folder / "report"
        report.unlink(missing_ok=True)
        plan = dict(faults, program="msprobe", clock="frozen", process=4242, report=str(report))
        (folder / "plan").write_text("".join("%s %s\n" % pair for pair in plan.items()))
        os.sched_setaffinity(0, set(self.cores) if core is None else {core})
        ended = subprocess.Popen([self.msprobe] + words, cwd=str(work), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, env=self.environment(FAULT_PLAN=str(folder / "plan")))
        try:
            out, errors = ended.communicate(timeout=SECONDS)
            code = ended.returncode
        except subprocess.TimeoutExpired:
            ended.kill()
            out, errors = ended.communicate()
            code = "hang"
        counts, hits = {}, 0
        if report.exists():
            for told in map(str.split, report.read_text().splitlines()):
                if told[0] == "hit":
                    hits += 1
                elif told[0] == "calls":
                    counts[told[1]] = int(told[2])
        tree = outcome_of_tree(str(work), before)
        for path in before:
            if not (work / path).exists():
                tree["lost " + path] = "lost"
        done = Done(code, *(text.decode("utf-8", "replace").replace(str(work), "/WORK") for text in (out, errors)), tree, counts, hits, work)
        done.whole = {path: is_whole(work / path) for path, digest in tree.items() if digest not in ("", "lost")}
        return done

    @staticmethod
    def says(done):
        """Whether a run told that something was not as it should be."""
        return re.search(r"warning:|error:|unreadable|unread|not read|cannot|could not|incomplete|damaged", done.out + done.errors, re.I) is not None

    @staticmethod
    def plain(text):
        """Without what differs from run to run: times, the process, free disk and memory (a column behind the whole memory)."""
        text = re.sub(r" +", " ", text)  # columns are as wide as what is in them
        return re.sub(r"\d+(\.\d+)? [kMGT]B free|(?<=[kMGT]B )\d+(\.\d+)? [kMGT]B\b|\d+(\.\d+)? ?(ms|s|us|min)\b|\d+ (MB|kB|GB)/s|"
                      r"\"seconds\": [0-9.e-]+|(?m:(?<=exit \d )[0-9.]+$)", "T", text)

    @staticmethod
    def names(line, good):
        """What a message may call by its name: the files and programs of the command line, and the results."""
        given = [word for word in line.words.split() if not word.startswith(("-", "{"))]
        return ["py"] + [re.escape(word) for word in given + [path.split("/")[0] for path in good.tree]]

    def judge(self, line, call, how, good, done):
        """What is wrong with a run, as short sentences."""
        wrong = []
        if done.code == "hang":
            return ["hangs"]
        if how == "stop" and done.code == -15:
            return [text for text in self.judge_files(call, good, done) if not self.is_accepted(line, call, how, text)]
        if how in ("kill", "torn") and done.code == -9:
            return [text for text in self.judge_kill(good, done) if not self.is_accepted(line, call, how, text)]
        if done.code < 0:
            return ["killed by signal %d" % -done.code]
        allowed = {0, good.code, 3}
        if done.code not in allowed:
            wrong.append("exit code %d: %s" % (done.code, self.first_line(done.errors)))
        if done.code == good.code and not (self.says(done) and not self.says(good)):
            for path in sorted(set(good.tree) | set(done.tree)):
                if good.tree.get(path) != done.tree.get(path) and not (call == "remove" and UNFINISHED.search(path)):
                    wrong.append("exit code %d and %s %s, without a word" % (done.code, path, "is missing" if path not in done.tree else
                                                             "is too much" if path not in good.tree else "differs"))
            if self.plain(done.out) != self.plain(good.out):
                wrong.append("exit code %d and another answer, without a word" % done.code)
        else:
            wrong += self.judge_files(call, good, done)
            if done.code == good.code:
                pass  # the answer says it
            elif not done.errors.strip():
                wrong.append("exit code %d without a message" % done.code)
            elif not re.search(r"/|hint:|standard output", done.errors) and not any(re.search(r"\b%s\b" % word, done.errors)
                                                                                    for word in self.names(line, good)):
                wrong.append("no path and no remedy: " + self.first_line(done.errors))
        return sorted(set(text for text in wrong if not self.is_accepted(line, call, how, text)))

    @staticmethod
    def is_accepted(line, call, how, text):
        return any(re.fullmatch(names, line.name) and call in calls.split() and re.search(texts, text) for names, calls, texts, _ in ACCEPTED)

    @staticmethod
    def judge_files(call, good, done):
        """What is wrong with the files of a run that did not do all of its work."""
        wrong = []
        for path, digest in done.tree.items():
            if UNFINISHED.search(path):
                # A name that cannot be removed stays.
                if call != "remove":
                    wrong.append("left over: " + re.sub(r"\d+", "N", path.split("/")[1] if path.startswith("out/") else path))
            elif path not in good.tree:
                wrong.append("too much: " + path)
            elif digest != good.tree[path] and not done.whole.get(path, True):
                wrong.append("not complete: " + path)
        return wrong

    def judge_kill(self, good, done):
        """What is wrong with what a kill left, and with the same command run once more."""
        # What is under a temporary name is for the next run.
        wrong = [text for text in self.judge_files("remove", good, done) if not text.startswith("too much: ")]
        again = done.again
        if again.code != good.code:
            wrong.append("run again: exit code %s: %s" % (again.code, self.first_line(again.errors)))
        wrong += ["run again, %s" % text for text in self.judge_files("none", good, again) if not text.startswith("too much: ")]
        # Results of one second get numbers, behind the time or at the end of the name.
        made = {re.sub(r"(?<=\d{14})_\d+(?=[._])|_\d(?=\.)", "", path) for path in again.tree} | set(again.tree)
        wrong += ["run again, %s is missing" % path for path in sorted(good.tree) if path not in made]
        return sorted(set(wrong))

    @staticmethod
    def first_line(errors):
        lines = [text for text in errors.splitlines() if text.startswith("error")] or errors.splitlines() or [""]
        return re.sub(r"/\S*/", ".../", lines[0])[:150]

    @staticmethod
    def numbers(count, quick, skip=0):
        first, spread = (QUICK_FIRST, QUICK_SPREAD) if quick else (FIRST, SPREAD)
        rest = range(skip + 1, count + 1)
        if len(rest) <= first + spread:
            return list(rest)
        return list(rest[:first]) + sorted(random.Random(count).sample(rest[first:], spread))

    def cases(self, line, good, calls, how, quick, startup):
        for call in calls:
            hows = HOWS[call][-2:] if quick else HOWS[call]
            kills = {} if quick else KILLS
            for way in [how] if how else hows + kills.get(call, []):
                skip = startup if call == "memory" else 0
                count = good.counts.get(call, 0)
                for number in range(skip + 1, count + 1) if self.every else self.numbers(count, quick, skip):
                    yield call, way, number

    @staticmethod
    def faults(call, how, number):
        word = how.rstrip("+")
        code = word if word in ("short", "stop", "kill", "torn") else str(getattr(errno, word))
        return {"call": call, "at": number, "last": 0 if how.endswith("+") else number, "how": code}

    def run_case(self, line, good, call, how, number):
        done = self.run(line, one_core=call != "thread", **self.faults(call, how, number))
        self.runs += 1
        return done, self.judge(line, call, how, good, done)

    def sweep(self, line, calls, how, quick, startup, pool):
        """All cases of a command; how many there were, as {column of the table: runs}."""
        tried = collections.Counter()
        good = self.run(line)
        if good.code != 0:
            if "page" not in good.errors:  # a build without Node has none
                self.breaches[(line.name, "none", "none", "exit code %s without faults: %s" % (good.code, good.errors))] = [0]
            return tried
        again = self.run(line)
        if (good.tree, self.plain(good.out), good.code) != (again.tree, self.plain(again.out), again.code):
            differ = [path for path in set(good.tree) | set(again.tree) if good.tree.get(path) != again.tree.get(path)]
            self.breaches[(line.name, "none", "none", "two runs without faults differ: %s" % (differ or "answer"))] = [0]
            return tried
        if any(UNFINISHED.search(path) for path in good.tree):
            raise SystemExit("%s leaves %s" % (line.name, sorted(good.tree)))
        good.counts["thread"] = self.run(line, one_core=False).counts.get("thread", 0)
        cases = list(self.cases(line, good, calls, how, quick, startup))
        futures = [(case, pool.submit(self.run_case, line, good, *case)) for case in cases]
        for (call, way, number), future in futures:
            _, wrong = future.result()
            tried[column_of(call, way)] += 1
            for what in wrong:
                self.breaches.setdefault((line.name, call, way, what), []).append(number)
        return tried

    def close(self):
        shutil.rmtree(str(self.root), ignore_errors=True)


def tell(breaches):
    """A line for each of [((..., call, how, what), [k...])], with the first places."""
    for (*_, call, how, what), numbers in breaches:
        shown = ",".join(map(str, numbers[:6])) + ("... (%d)" % len(numbers) if len(numbers) > 6 else "")
        print("  %s %s at %s: %s" % (call, how, shown, what), flush=True)


def column_of(call, how):
    """The column of the table that a case counts in."""
    return "kill" if how in ("kill", "torn") else call


def record(file, line, tried, breaches):
    """Adds a command's numbers to a file, as a line {command, runs: {column: count}, breaches: {column: count}}."""
    wrong = {(column_of(call, how), how, number) for (_, call, how, _), numbers in breaches for number in numbers}
    counted = collections.Counter(column for column, _, _ in wrong)
    with open(file, "a", encoding="utf-8") as out:
        out.write(json.dumps({"command": line.name, "runs": tried, "breaches": counted}) + "\n")


def table(files):
    """The recorded numbers in Markdown: runs of each command and family, breaches in brackets. The last record of a command and a
    family counts."""
    runs, wrong = collections.defaultdict(dict), collections.Counter()
    for file in files:
        for told in map(json.loads, open(file, encoding="utf-8")):
            runs[told["command"]].update(told["runs"])
            for column in [*told["runs"], *told["breaches"]]:
                wrong[told["command"], column] = told["breaches"].get(column, 0)
    columns = [column for column in [*HOWS, "kill"] if any(column in own for own in runs.values())]
    lines = ["| command | " + " | ".join(columns) + " | all |", "|---|" + "---:|" * (len(columns) + 1)]

    def cell(count, breaches):
        return ("{:,}".format(count) if count else "") + (" (%d)" % breaches if breaches else "")

    for name, own in runs.items():
        cells = [cell(own.get(column, 0), wrong[name, column]) for column in columns]
        lines.append("| `%s` | %s | %s |" % (name, " | ".join(cells), cell(sum(own.values()), sum(wrong[name, column] for column in [*columns, "none"]))))
    sums = [cell(sum(own.get(column, 0) for own in runs.values()), sum(wrong[name, column] for name in runs)) for column in columns]
    lines.append("| all | %s | %s |" % (" | ".join(sums), cell(sum(sum(own.values()) for own in runs.values()), sum(wrong.values()))))
    return "\n".join(lines)


def main():
    if sys.argv[1:2] == ["--table"]:
        print(table(sys.argv[2:]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("msprobe")
    parser.add_argument("injector")
    parser.add_argument("repository")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--every", action="store_true", help="all allocations of each command instead of 800: hours")
    parser.add_argument("--command", action="append")
    parser.add_argument("--call", action="append")
    parser.add_argument("--how")
    parser.add_argument("--at", type=int)
    parser.add_argument("--keep")
    parser.add_argument("--record")
    options = parser.parse_args()
    sweep = Sweep(options.msprobe, options.injector, options.repository)
    sweep.every = options.every
    lines = [line for line in commands.all_lines() if not options.command or line.name in options.command]
    calls = options.call or list(HOWS)
    try:
        if options.at:
            good = sweep.run(lines[0])
            done, wrong = None, None
            done = sweep.run(lines[0], keep=options.keep, one_core=calls[0] != "thread", **sweep.faults(calls[0], options.how, options.at))
            wrong = sweep.judge(lines[0], calls[0], options.how, good, done)
            print(done.out, done.errors, "exit code %s, %d hits, files: %s" % (done.code, done.hits, sorted(done.tree)), sep="\n")
            print("wrong:", wrong)
            return 1 if wrong else 0
        # Before a command is chosen all of them do the same: that part is swept once.
        startup = sweep.run(commands.Line("version", "--version")).counts.get("memory")
        if startup is None:
            parser.error("no call of %s was counted: %s must be the injector, and the program's file must be named msprobe" %
                         (options.msprobe, options.injector))
        with concurrent.futures.ThreadPoolExecutor(len(sweep.cores)) as pool:
            for line in lines:
                before = len(sweep.breaches)
                tried = sweep.sweep(line, calls, options.how, options.quick, 0 if line.name == "help" else startup - 100, pool)
                print("%-36s %7d runs so far" % (line.name, sweep.runs), flush=True)
                if options.record:
                    record(options.record, line, tried, list(sweep.breaches.items())[before:])
                tell(list(sweep.breaches.items())[before:])
        print("%d runs, %d kinds of breach" % (sweep.runs, len(sweep.breaches)))
        return 1 if sweep.breaches else 0
    finally:
        sweep.close()


if __name__ == "__main__":
    sys.exit(main())
