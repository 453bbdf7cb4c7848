#!/usr/bin/env python3
"""Makes the k-th call of the capture engine fail, or ends the process there, for every k: the training's result stays the same, and
whatever is left can be read.

usage: capture_sweep.py MSPROBE INJECTOR TRAINING [--quick] [--call FAMILY]... [--how HOW] [--at K] [--keep FOLDER]
"""
import argparse
import collections
import concurrent.futures
import json
import os
import queue
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import sweep

# Where the process may end: in front of every call that changes a file, and in the middle of those that write.
KILLS = {call: ["kill"] for call in ("open", "rename", "folder", "remove", "close", "size", "lock", "sync")}
KILLS["write"] = ["kill", "torn"]
JSON_FILES = ("dump.json", "stack.json", "construct.json", "manifest.json")


class CaptureSweep:
    def __init__(self, msprobe, injector, training):
        self.msprobe, self.injector, self.training = (str(Path(path).resolve()) for path in (msprobe, injector, training))
        self.root = Path(tempfile.mkdtemp(prefix="msprobe_capture_faults_")).resolve()
        self.cores = sorted(os.sched_getaffinity(0))
        self.folders = queue.Queue()
        for number in range(len(self.cores)):
            self.folders.put(self.root / ("scratch%d" % number))
        self.breaches = collections.OrderedDict()
        self.tried = collections.Counter()

    def call(self, words, folder, **more):
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("MSPROBE_", "FAULT_", "LD_PRELOAD"))}
        environment.update(LC_ALL="C.UTF-8", **more)
        process = subprocess.Popen(words, cwd=str(folder), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   env=environment)
        try:
            out, errors = process.communicate(timeout=sweep.SECONDS)
            return process.returncode, out.decode(), errors.decode("utf-8", "replace")
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return "hang", "", ""

    def train(self, folder, **faults):
        """A training in a new folder; what it said, the calls it made and the files it left."""
        shutil.rmtree(str(folder), ignore_errors=True)
        folder.mkdir()
        plan = dict(faults, program=Path(self.training).name, clock="frozen", process=4242, report=str(folder / "report"))
        (folder / "plan").write_text("".join("%s %s\n" % pair for pair in plan.items()))
        code, out, errors = self.call([self.training, "dump"], folder, LD_PRELOAD=self.injector, FAULT_PLAN=str(folder / "plan"))
        counts, hits = {}, 0
        for words in map(str.split, (folder / "report").read_text().splitlines() if (folder / "report").exists() else []):
            hits += words[0] == "hit"
            if words[0] == "calls":
                counts[words[1]] = int(words[2])
        return code, out, errors, counts, hits

    @staticmethod
    def files(folder):
        return {str(path.relative_to(folder)): path for path in sorted((folder / "dump").rglob("*")) if path.is_file()}

    def contents(self, folder):
        """What the files say, times left out."""
        said = {}
        for name, path in self.files(folder).items():
            data = path.read_bytes()
            if path.name == "manifest.json":
                data = re.sub(rb'"(\w+_seconds|written_bytes|deduplicated_files)": [0-9.e-]+', b"", data)
            said[name] = sweep.digest_of(data, str(folder).encode())
        return said

    def judge_files(self, folder, call, good):
        """What is wrong with what a run left."""
        wrong = []
        for name, path in self.files(folder).items():
            if sweep.UNFINISHED.search(name) and call != "remove":
                wrong.append("left over: " + re.sub(r"\d+", "N", path.name))
            if path.name in JSON_FILES:
                try:
                    parsed = json.loads(path.read_text())
                except ValueError:
                    wrong.append("not complete: " + path.name)
                    continue
                if path.name == "manifest.json" and parsed["complete"]:
                    wrong += self.judge_complete(folder, path.parent, good)
            elif path.suffix == ".pt" and self.contents_of_tensor(path) != good.get(self.place_of(name)):
                wrong.append("another tensor under its final name")
        return wrong

    @staticmethod
    def place_of(name):
        return name.replace("/rank/", "/rank0/")

    def contents_of_tensor(self, path):
        return sweep.digest_of(path.read_bytes(), str(path).encode())

    def judge_complete(self, folder, rank_folder, good):
        """A step that calls itself complete says what it would have said without faults."""
        wrong = []
        said = self.contents(folder)
        place = str(rank_folder.relative_to(folder)) + "/"
        for name, digest in good.items():
            if name.startswith(self.place_of(place)) and not name.endswith("manifest.json"):
                own = place + name[len(self.place_of(place)):]
                if own not in said:
                    wrong.append("called complete, without " + Path(name).name)
                elif said[own] != digest and place == self.place_of(place):
                    wrong.append("called complete, with another " + Path(name).name)
        return wrong

    def judge_reading(self, folder):
        """Whether what is left can be read by the commands."""
        wrong = []
        if not (folder / "dump").exists():
            return wrong
        code, _, errors = self.call([self.msprobe, "dump", "recover", "dump", "-q"], folder)
        if code != 0:
            wrong.append("recover: exit code %s: %s" % (code, sweep.Sweep.first_line(errors)))
        if any(name.endswith("/dump.json") for name in self.files(folder)):
            for words in (["show", "dump"], ["compare", "dump", "dump", "-o", "compared", "-q"]):
                code, _, errors = self.call([self.msprobe] + words, folder)
                if code != 0:
                    wrong.append("%s: exit code %s: %s" % (words[0], code, sweep.Sweep.first_line(errors)))
        for tensors in (folder / "dump").rglob("dump_tensor_data"):
            if any(tensors.iterdir()):
                code, out, errors = self.call([self.msprobe, "show", str(tensors), "--stats"], folder)
                if code != 0 or "could not be read" in errors:
                    wrong.append("a tensor file cannot be read: " + sweep.Sweep.first_line(errors))
        return wrong

    def run_case(self, call, how, number, good):
        folder = self.folders.get()
        try:
            return self.judge(folder, call, how, self.train(folder, **sweep.Sweep.faults(call, how, number)), good)
        finally:
            self.folders.put(folder)

    def judge(self, folder, call, how, ended, good):
        code, out, errors, _, hits = ended
        wrong = []
        if how in ("kill", "torn"):
            if hits and code != -9:
                wrong.append("was to be killed and ended with %s" % code)
            wrong += self.judge_reading(folder)
            wrong += [text for text in self.judge_files(folder, call, good["files"])]
        else:
            if (code, out) != (good["code"], good["out"]):
                wrong.append("the training ends with %s and says %r: %s" % (code, out.strip(), sweep.Sweep.first_line(errors)))
            wrong += self.judge_files(folder, call, good["files"])
        return sorted(set(wrong))

    def good_run(self):
        folder = self.root / "good"
        code, out, errors, counts, _ = self.train(folder)
        good = {"code": code, "out": out, "files": self.contents(folder), "counts": counts}
        if code != 5 or not out.startswith("loss ") or errors:
            raise SystemExit("without faults the training ends with %s: %s" % (code, errors))
        if self.judge_files(folder, "none", good["files"]) or self.judge_reading(folder):
            raise SystemExit("without faults: %s" % (self.judge_files(folder, "none", good["files"]) + self.judge_reading(folder)))
        # Counts differ a little from run to run: threads.
        good["counts"] = {call: count + 3 for call, count in counts.items() if count}
        return good

    def sweep(self, calls, how, quick):
        good = self.good_run()
        with concurrent.futures.ThreadPoolExecutor(len(self.cores)) as pool:
            for call in calls:
                fails = [way for way in sweep.HOWS[call] if way not in ("stop", "kill")]  # SIGTERM is the training's own
                hows = [how] if how else (fails[-2:] if quick else fails) + KILLS.get(call, [])
                count = good["counts"].get(call, 0)
                numbers = sweep.Sweep.numbers(count, quick) if quick else range(1, count + 1)
                for way in hows:
                    futures = [(number, pool.submit(self.run_case, call, way, number, good)) for number in numbers]
                    for number, future in futures:
                        self.tried[call, "kill" if way in ("kill", "torn") else "fail"] += 1
                        for what in future.result():
                            self.breaches.setdefault((call, way, what), []).append(number)
                sweep.tell([breach for breach in self.breaches.items() if breach[0][0] == call])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("msprobe")
    parser.add_argument("injector")
    parser.add_argument("training")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--call", action="append")
    parser.add_argument("--how")
    parser.add_argument("--at", type=int)
    parser.add_argument("--keep")
    options = parser.parse_args()
    run = CaptureSweep(options.msprobe, options.injector, options.training)
    try:
        if options.at:
            good = run.good_run()
            folder = run.root / "one"
            ended = run.train(folder, **sweep.Sweep.faults(options.call[0], options.how, options.at))
            if options.keep:
                shutil.copytree(str(folder), options.keep)
            wrong = run.judge(folder, options.call[0], options.how, ended, good)
            print("exit code %s, %d hits\n%s%s" % (ended[0], ended[4], ended[1], ended[2]))
            print("files:", sorted(run.files(folder)), "\nwrong:", wrong)
            return 1 if wrong else 0
        run.sweep(options.call or list(sweep.HOWS), options.how, options.quick)
        print("%d runs, %d kinds of breach" % (sum(run.tried.values()), len(run.breaches)))
        print("tried:", dict(run.tried))
        return 1 if run.breaches else 0
    finally:
        shutil.rmtree(str(run.root), ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
