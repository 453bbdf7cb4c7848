#!/usr/bin/env python3
"""Guards against a loss of speed: this program beside an earlier one and beside the machine, by ratios alone.

usage: tests/bench/guard.py [--against PROGRAM] [--only NAME]... [--rounds N] [--quick] [--data DIR] [--update FILE] [PROGRAM]

How it judges. Seconds of one machine mean nothing on another, and little on the same one an hour later. So every figure is a ratio of CPU
seconds (user and system, of the process and its children) that were taken by turns: a round runs the roof, the earlier program and this
one, in an order that rotates; the figure is the median over the rounds of each round's ratio. Two ratios count:

  to the program before   above 1.10 is a loss
  to the roof             what must be paid in any case, measured in the same round: a plain read of the input's bytes, or the training
                          without the tool; above the row's limit is a loss

A row that has lost is measured again with twice the rounds: only a loss that repeats counts, since another job on the machine can make one
series look slow. Exit code 0: no loss, 1: a loss, 2: wrong usage or a run that failed.

Rows are the table ROWS; inputs come from the generators beside this file, whose sizes make a run take tenths of a second. The rows with
a training need a built shim beside the program (../python) and a Python with PyTorch, and are left out, by name, where one is missing.
"""
import argparse
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SYSTEM_PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
LOSS = 1.10
ROUNDS = 7
TABLE_BEGIN, TABLE_END = "<!-- bench-guard: begin -->", "<!-- bench-guard: end -->"


def make_with(script, *arguments):
    """A generator of inputs: called with the folder to make."""
    def make(folder):
        subprocess.run([SYSTEM_PYTHON, os.path.join(ROOT, script)] + [argument.replace("{}", folder) for argument in arguments],
                       check=True, stdout=subprocess.DEVNULL)
    return make


def capture(mode):
    """A short training under capture; of `None` the training alone."""
    return ["{python}", os.path.join(ROOT, "tests", "bench", "guard_training.py"), mode, "{out}"]


def profiles(folder):
    make_with("tests/bench/make_profiles.py", "{}/before.json", "--mb", "16")(folder)
    make_with("tests/bench/make_profiles.py", "{}/after.json", "--mb", "16", "--slower", "8")(folder)


STATISTICS = make_with("tools/dev/make_compare_dumps.py", "{}", "statistics", "--rows", "20000")
TENSORS = make_with("tools/dev/make_compare_dumps.py", "{}", "tensors", "--count", "80", "--mib", "2.5")
RANKS = make_with("tests/bench/make_nan_dumps.py", "{}", "--ranks", "16", "--operators", "2000", "--poisoned")


# Name; what makes its input; the command line after the program ("{in}", "{out}"), or a whole one with "{python}"; the roof: None for a
# plain read of the input, or a command line; the most that the command may cost as a multiple of that roof.
ROWS = {
    "compare, statistics, csv": (STATISTICS, ["compare", "-q", "{in}/npu", "{in}/bench", "-o", "{out}", "--format", "csv"], None, 240),
    "compare, statistics, xlsx": (STATISTICS, ["compare", "-q", "{in}/npu", "{in}/bench", "-o", "{out}"], None, 480),
    "compare, statistics, differences": (STATISTICS, ["compare", "-q", "{in}/npu", "{in}/bench", "-o", "{out}", "--format", "csv",
                                                      "--only-diff"], None, 140),
    "compare, tensors": (TENSORS, ["compare", "-q", "{in}/npu", "{in}/bench", "-o", "{out}"], None, 4),
    "nan_analyze": (RANKS, ["nan_analyze", "-q", "-i", "{in}/step0", "-o", "{out}"], None, 20),
    "perf_compare": (profiles, ["perf_compare", "-q", "-d", "{in}/after.json", "-bp", "{in}/before.json", "-o", "{out}"], None, 90),
    "graph_visualize": (STATISTICS, ["graph_visualize", "-q", "-tp", "{in}/npu", "-gp", "{in}/bench", "-o", "{out}"], None, 640),
    "capture, statistics mix": (None, capture("statistics"), capture("without"), 17),
    "capture, L0": (None, capture("L0"), capture("without"), 13),
}


class Failed(Exception):
    pass


def cpu_seconds(command, environment=None, printed=False):
    """User and system seconds of a command and its children; with `printed` the number that it prints. A command that judges may end
    with 1."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode not in (0, 1):
        raise Failed("%s ended with %d: %s" % (" ".join(command), ended.returncode, ended.stderr.decode(errors="replace")[-400:]))
    return float(ended.stdout) if printed else after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def read_seconds(folder):
    """CPU seconds of reading every file of a folder once, in blocks of 1 MiB, in this process."""
    block = bytearray(1 << 20)
    before = time.process_time()
    for place, _, names in os.walk(folder):
        for name in names:
            with open(os.path.join(place, name), "rb", buffering=0) as file:
                while file.readinto(block):
                    pass
    return time.process_time() - before


def roof_by_reading(folder):
    """The least of several, since a read takes milliseconds only."""
    return min(read_seconds(folder) for _ in range(20))


class Row:
    def __init__(self, name, programs, data):
        self.name = name
        self.make, self.command, self.roof, self.limit = ROWS[name]
        self.programs = programs  # this one, and the one before or None
        # Rows with the same generator share a folder.
        self.folder = os.path.join(data, re.sub(r"\W+", "_", next(other for other in ROWS if ROWS[other][0] is self.make)))

    def prepare(self):
        complete = os.path.join(self.folder, ".complete")
        if not os.path.exists(complete):
            shutil.rmtree(self.folder, ignore_errors=True)
            os.makedirs(self.folder)
            if self.make:
                self.make(self.folder)
            open(complete, "w", encoding="utf-8").close()

    def run(self, program, command):
        with tempfile.TemporaryDirectory() as out:
            places = {"{in}": self.folder, "{out}": out, "{python}": SYSTEM_PYTHON}
            words = []
            for word in command:
                for mark, place in places.items():
                    word = word.replace(mark, place)
                words.append(word)
            if command[0] == "{python}":
                shim = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(program))), "python")
                return cpu_seconds(words, dict(os.environ, PYTHONPATH=shim), printed=True)
            return cpu_seconds([program] + words)

    def measure(self, rounds):
        """(ratio to the program before or None, ratio to the roof)"""
        turns = [lambda: roof_by_reading(self.folder) if self.roof is None else self.run(self.programs[0], self.roof)]
        turns += [lambda program=program: self.run(program, self.command) for program in self.programs if program]
        for turn in turns:  # not counted: the first run fills the page cache
            turn()
        to_before, to_roof = [], []
        for number in range(rounds):
            seconds = [0.0] * len(turns)
            for step in range(len(turns)):
                place = (number + step) % len(turns)
                seconds[place] = turns[place]()
            to_roof.append(seconds[1] / seconds[0])
            if len(turns) > 2:
                to_before.append(seconds[1] / seconds[2])
        return statistics.median(to_before) if to_before else None, statistics.median(to_roof)

    def losses(self, ratios):
        before, roof = ratios
        found = []
        if before is not None and before > LOSS:
            found.append("%.2f times the program before" % before)
        if roof > self.limit:
            found.append("%.1f times its roof, at most %g are allowed" % (roof, self.limit))
        return found


def missing_for_training(programs):
    """Why the rows with a training can't run, or None."""
    for program in programs:
        if program:
            shim = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(program))), "python", "msprobe")
            if not os.path.isdir(shim):
                return "there is no shim beside %s" % program
    has_torch = subprocess.run([SYSTEM_PYTHON, "-c", "import torch"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    return None if has_torch.returncode == 0 else "%s has no PyTorch" % SYSTEM_PYTHON


def guard(names, programs, data, rounds):
    """[(name, ratio before, ratio roof, limit, [losses that repeat])], printed as they come."""
    results = []
    print("%-34s %14s %12s %8s" % ("", "to the program", "to its roof", "allowed"))
    print("%-34s %14s %12s %8s" % ("CPU seconds, ratios", "before", "", ""))
    for name in names:
        row = Row(name, programs, data)
        row.prepare()
        ratios = row.measure(rounds)
        lost = row.losses(ratios)
        note = ""
        if lost:
            ratios = row.measure(2 * rounds)
            lost = row.losses(ratios)
            note = "  LOSS: " + ", ".join(lost) if lost else "  (a first series was slower, the second was not)"
        print("%-34s %14s %12.1f %8g%s" % (name, "-" if ratios[0] is None else "%.2f" % ratios[0], ratios[1], row.limit, note), flush=True)
        results.append((name, ratios[0], ratios[1], row.limit, lost))
    return results


def update(path, results, known):
    """Writes the table between its marks in a page of the docs."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    begin, end = text.find(TABLE_BEGIN), text.find(TABLE_END)
    if begin < 0 or end < begin:
        raise Failed("%s has no table between %s and %s" % (path, TABLE_BEGIN, TABLE_END))
    lines = ["| command | %sCPU seconds as a multiple of its roof | allowed | roof |" % ("beside the commit before | " if known else ""),
             "|---|%s--:|--:|---|" % ("--:|" if known else "")]
    for name, before, roof, limit, _ in results:
        lines.append("| %s | %s%.1f | %g | %s |" % (name, "%.2f | " % before if known else "", roof, limit,
                                                     "a plain read of the input" if ROWS[name][2] is None else "the training alone"))
    with open(path, "w", encoding="utf-8") as file:
        file.write(text[:begin] + TABLE_BEGIN + "\n" + "\n".join(lines) + "\n" + text[end:])


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n")[0], description=__doc__.split("\n")[0])
    parser.add_argument("program", nargs="?", default=os.path.join(ROOT, "build", "bin", "msprobe"))
    parser.add_argument("--against")
    parser.add_argument("--only", action="append")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--data")
    parser.add_argument("--update")
    arguments = parser.parse_args()
    programs = [arguments.program, arguments.against]
    for program in programs:
        if program and not os.access(program, os.X_OK):
            parser.error("%s is not a program; tools/quickstart.sh builds one" % program)
    unknown = [name for name in arguments.only or [] if name not in ROWS]
    if unknown:
        parser.error("no row %s; known: %s" % (unknown[0], "; ".join(ROWS)))
    names = arguments.only or list(ROWS)
    why = missing_for_training(programs) if any(ROWS[name][1][0] == "{python}" for name in names) else None
    if why:
        left = [name for name in names if ROWS[name][1][0] == "{python}"]
        names = [name for name in names if name not in left]
        print("left out, since %s: %s" % (why, "; ".join(left)))
    data = arguments.data or tempfile.mkdtemp()
    try:
        results = guard(names, programs, data, 3 if arguments.quick else arguments.rounds)
        if arguments.update:
            update(arguments.update, results, arguments.against is not None)
    except (Failed, subprocess.CalledProcessError) as failed:
        print("error: %s" % failed, file=sys.stderr)
        return 2
    finally:
        if not arguments.data:
            shutil.rmtree(data, ignore_errors=True)
    lost = [name for name, _, _, _, losses in results if losses]
    print("LOSS: %s" % "; ".join(lost) if lost else "NO LOSS in %d rows" % len(results) if results else "NOTHING MEASURED")
    return 1 if lost or not results else 0


if __name__ == "__main__":
    sys.exit(main())
