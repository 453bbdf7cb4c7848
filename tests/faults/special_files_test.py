#!/usr/bin/env python3
"""Every command that reads, with something else in the place of each of its inputs: a FIFO nobody writes to, a link to one, a device that
never ends or refuses, a socket, a dangling link, a folder. None may wait or read without end, and each ends with one of its exit codes.

usage: special_files_test.py MSPROBE REPOSITORY [--all] [--command NAME]

The ordinary run puts every kind into the place of one file of each ending of each input; --all into the place of every file. --command: that one alone.
"""
import concurrent.futures
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import commands  # noqa: E402  pylint: disable=wrong-import-position

LIMIT_S = 10
# They ask a program of the user's, which starts a Python with PyTorch: slower than any reader.
SLOW = {"run_ut": 60, "multi_run_ut": 60, "acc_check": 60, "multi_acc_check": 60, "run_overflow_check": 60, "free_benchmark": 60}
# Nothing is read, or a program of the user runs first.
LEFT_OUT = {"completion", "help", "devices", "serve"}
KINDS = ("fifo", "link to fifo", "endless device", "full device", "socket", "dangling link", "folder")


def put(kind, path):
    """In the place of `path`, where nothing is."""
    if kind == "fifo":
        os.mkfifo(path)
    elif kind == "link to fifo":
        os.mkfifo(str(path) + ".hidden")
        os.symlink(path.name + ".hidden", path)
    elif kind == "endless device":
        os.symlink("/dev/zero", path)
    elif kind == "full device":
        os.symlink("/dev/full", path)
    elif kind == "socket":
        # The name of a socket is short: it is bound from within its folder.
        here = os.open(".", os.O_RDONLY)
        try:
            os.chdir(path.parent)
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind("s")
            os.rename("s", path.name)
        finally:
            os.fchdir(here)
            os.close(here)
    elif kind == "dangling link":
        os.symlink("nothing-is-here", path)
    else:
        os.mkdir(path)


def take_away(path):
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    else:
        path.unlink()
    hidden = Path(str(path) + ".hidden")
    if os.path.lexists(hidden):
        hidden.unlink()


class Case:
    """A command line in a folder of its own, with copies of its inputs."""

    def __init__(self, msprobe, line, places, folder):
        self.msprobe, self.line, self.folder = msprobe, line, folder
        (folder / "work").mkdir(parents=True)
        scratch = dict(places, scratch=folder / "work")
        if line.prepare:
            line.prepare(places, folder / "work")
        self.words = []
        self.inputs = []
        for number, word in enumerate(commands.words_of(line, scratch)):
            path = Path(word)
            if path.is_absolute() and path.exists() and places["repository"] in path.parents:
                copy = folder / ("in%d" % number) / path.name
                copy.parent.mkdir()
                if path.is_dir():
                    shutil.copytree(str(path), str(copy), symlinks=True)
                else:
                    shutil.copy(str(path), str(copy))
                self.inputs.append(copy)
                word = str(copy) + ("/" if word.endswith("/") else "")
            self.words.append(word)

    def files(self, all_of_them):
        """The inputs themselves, and what lies in those that are folders."""
        found = []
        own = self.words[self.words.index("--") + 1:] if "--" in self.words else []  # read by the program that is started
        for place in self.inputs + [self.folder / "work"]:
            below = [place] if place.is_file() else sorted(path for path in place.rglob("*") if path.is_file())
            endings = set()
            for path in below:
                ending = (path.suffix, len(path.name.split("_")) if path.suffix == ".csv" else 0)
                if (all_of_them or ending not in endings) and path.name not in own:
                    found.append(path)
                endings.add(ending)
        return found

    def run(self):
        """(exit code or None, what it said)."""
        out = self.folder / "work" / "out"
        before = set((self.folder / "work").iterdir())
        try:
            done = subprocess.run([self.msprobe, *self.words], cwd=str(self.folder / "work"), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=SLOW.get(self.words[0], LIMIT_S))
            outcome = done.returncode, done.stdout.decode("utf-8", "replace")
        except subprocess.TimeoutExpired as late:
            outcome = None, (late.stdout or b"").decode("utf-8", "replace")
        for made in set((self.folder / "work").iterdir()) - before | ({out} if out.exists() else set()):
            shutil.rmtree(str(made)) if made.is_dir() and not made.is_symlink() else made.unlink()
        return outcome

    def check(self, all_of_them):
        """(number of runs, complaints)."""
        complaints = []
        runs = 0
        for path in self.files(all_of_them):
            kept = path.with_name(path.name + ".kept")
            name = str(path.relative_to(self.folder))
            path.rename(kept)
            aside = self.folder / "aside"
            kept.rename(aside)
            for kind in KINDS:
                put(kind, path)
                code, said = self.run()
                runs += 1
                if code is None:
                    complaints.append("%s: %s in the place of %s: no answer in time" % (self.line.name, kind, name))
                elif code not in (0, 1, 2, 3):
                    complaints.append("%s: %s in the place of %s: exit code %d: %s" % (self.line.name, kind, name, code, said[-300:]))
                take_away(path)
            aside.rename(path)
        return runs, complaints


def main():
    msprobe, repository = os.path.abspath(sys.argv[1]), Path(sys.argv[2]).resolve()
    all_of_them = "--all" in sys.argv[3:]
    only = sys.argv[sys.argv.index("--command") + 1] if "--command" in sys.argv else None
    with tempfile.TemporaryDirectory() as top:
        top = Path(top)
        (top / "places").mkdir()
        places = commands.make_places(repository, top / "places")
        lines = [line for line in commands.all_lines() if not line.script and line.name.split()[0] not in LEFT_OUT and only in (None, line.name)]
        cases = []
        for number, line in enumerate(lines):
            case = Case(msprobe, line, places, top / ("case%d" % number))
            if case.inputs or any((case.folder / "work").iterdir()):
                cases.append(case)
        with concurrent.futures.ProcessPoolExecutor(max_workers=min(4, os.cpu_count() or 1)) as pool:
            outcomes = list(pool.map(check_one, [(case, all_of_them) for case in cases]))
    complaints = [complaint for _, found in outcomes for complaint in found]
    for complaint in complaints:
        print("FAIL " + complaint)
    print("%d commands, %d runs, %d complaints" % (len(cases), sum(runs for runs, _ in outcomes), len(complaints)))
    return 1 if complaints else 0


def check_one(job):
    case, all_of_them = job
    return case.check(all_of_them)


if __name__ == "__main__":
    sys.exit(main())
