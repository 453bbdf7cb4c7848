"""What every framework's tests ask of a training: that a capture changes nothing, tells the truth, leaks nothing, leaves
nothing, and names a planted fault. Answers go to the table of docs/compatibility.md (tests/frameworks/README.md).

    class Llama(harness.TrainingCase):
        framework = "transformers"          # its folder, a name of tests/frameworks/frameworks.txt
        subject = "Llama, Trainer"          # a row of the table
        script = "llama.py"                 # beside the test; see training.py
        fault = "model.layers.1.mlp"        # a module that computes wrong on request

        def test_all(self):
            self.check_everything()

MSPROBE_HARMLESS=all: every observer for every training; otherwise a script may narrow them to self.usual.
"""
import collections
import contextlib
import csv
import glob
import importlib
import json
import math
import os
import re
import shutil
import socket
import subprocess
import sys
import sysconfig
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "torch"))
from script_runs import run_forked  # noqa: E402

MSPROBE = os.environ.get("MSPROBE") or shutil.which("msprobe")
ALL = os.environ.get("MSPROBE_HARMLESS") == "all"

# ---- what observes ----
# api: the script's own process starts and stops it. launcher: an unmodified script under `msprobe dump` or `monitor run`.
LEVELS = ("L0", "L1", "mix")
TASKS = ("statistics", "statistics:md5", "tensor")
API = (["dump:%s:%s" % (level, task) for level in LEVELS for task in TASKS]
       + ["dump:debug:statistics", "dump:mix:structure", "dump:mix:overflow_check", "monitor",
          "dump:mix:statistics monitor", "monitor dump:L1:tensor"])
LAUNCHED = ["launch dump:%s:%s" % pair for pair in (("L0", "tensor"), ("L1", "statistics:md5"), ("mix", "statistics"))]
LAUNCHED += ["launch monitor"]
OBSERVERS = API + LAUNCHED
USUAL = ["dump:mix:tensor", "dump:L0:statistics:md5", "dump:mix:statistics monitor", "launch dump:mix:statistics",
         "launch monitor"]

MONITOR = {"targets": {}, "xy_distribution": True, "wg_distribution": True, "mv_distribution": True,
           "param_distribution": True, "step_interval": 1, "ops": ["norm", "min", "max", "mean", "nans"]}
CHECKS = ("harmless", "true", "leak-free", "leaves nothing", "fault named")   # of a training, one column each
# Words of a capture that gave something up: a training that was not observed proves nothing.
GAVE_UP = ("switched off", "reported once", "training continues", "nothing is captured")


def packages_of(environment):
    """The folder of another environment's packages: all environments lie in one folder (tests/frameworks/README.md)."""
    own = os.path.relpath(sysconfig.get_paths()["purelib"], sys.prefix)
    return os.path.join(os.path.dirname(sys.prefix), environment, own)


class FrameworkCase(unittest.TestCase):
    framework = ""
    module = ""   # what carries __version__, if it is not called like the framework
    subject = ""
    quick = True   # whether continuous integration runs it (tests/frameworks/run.py --quick)
    maxDiff = 4000

    def setUp(self):
        if os.environ.get("MSPROBE_QUICK") and not self.quick:
            self.skipTest("not of the quick part")
        super().setUp()   # of whatever else a test derives from

    def version(self):
        return importlib.import_module(self.module or self.framework).__version__.split("+")[0]

    def write_result(self, subject, check, answer):
        """answer: "yes", "no", or "not run: " and why. One file per test process, tests/frameworks/results.py collects them."""
        folder = os.environ.get("MSPROBE_FRAMEWORK_RESULTS")
        if folder:
            with open(os.path.join(folder, "%d.jsonl" % os.getpid()), "a", encoding="utf-8") as file:
                file.write(json.dumps({"framework": self.framework, "version": self.version(), "subject": subject,
                                       "check": check, "answer": answer}) + "\n")

    @contextlib.contextmanager
    def checking(self, check, subject=""):
        """What is inside decides the cell of this column of the table."""
        answer = "no"
        try:
            yield
            answer = "yes"
        except unittest.SkipTest as skip:
            answer = "not run: %s" % skip
            raise
        finally:
            self.write_result(subject or self.subject, check, answer)

    def folder(self):
        folder = tempfile.mkdtemp(prefix="msprobe_framework_")
        self.addCleanup(shutil.rmtree, folder, True)
        return folder

    def msprobe(self, *arguments, **options):
        """stdout of the program; exit= the code that is expected."""
        run = subprocess.run([MSPROBE] + list(arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             universal_newlines=True, timeout=300)
        self.assertEqual(run.returncode, options.get("exit", 0), run.stdout + run.stderr)
        return run.stdout


class Observed:
    """A finished run: the reports of its ranks, its folder and what it printed."""

    def __init__(self, folder, output, reports):
        self.folder = folder
        self.output = output
        self.reports = reports

    def dump(self, step=0, rank=0):
        """The folder of this step and rank."""
        ranks = sorted(glob.glob(os.path.join(self.folder, "dump", "step%d" % step, "rank*")))
        return ranks[rank]

    def data(self, step=0, rank=0):
        with open(os.path.join(self.dump(step, rank), "dump.json"), encoding="utf-8") as file:
            return json.load(file)["data"]


class TrainingCase(FrameworkCase):
    quick = False
    script = ""
    arguments = ()
    processes = 1
    imports = ("torch", "torch_training")   # loaded once for all runs that are forked
    observers = OBSERVERS
    usual = USUAL
    fault = ""
    named_as = ""   # see check_fault_named
    faulty_ranks = None   # a list where not every rank that has such a module is to compute wrong
    # A substring of names that the witness sees and the dump does not hold, with the reason: {name: reason}.
    unseen = {}
    not_asked = {}   # checks that cannot be asked of this training, with the reason: {"true": reason}
    notes = False   # whether the script also notes what the monitor is to say
    measured = "dump:mix:statistics monitor"   # what must not leak
    not_quick = ("leak-free",)   # checks that continuous integration leaves out
    timeout = 600
    environment = {}

    @classmethod
    def setUpClass(cls):
        if cls.script:
            # pyarrow's allocator would start a thread when it is imported, and run_forked() could copy this process no more.
            os.environ["JE_ARROW_MALLOC_CONF"] = "background_thread:false"
            sys.path[:0] = [os.path.join(HERE, cls.framework), HERE]
            for name in cls.imports:
                importlib.import_module(name)

    def setUp(self):
        super().setUp()
        self._runs = {}   # several checks look at the same run

    # ---- running ----

    def run_training(self, observers="", **asked):
        """observers: names of OBSERVERS, "" or "witness". asked: what training.TrainingRun reads from $MSPROBE_RUN."""
        key = observers, self.arguments, json.dumps([asked, self.environment], sort_keys=True)
        if key not in self._runs:
            self._runs[key] = self._run_anew(observers, asked)
        return self._runs[key]

    def _run_anew(self, observers, asked):
        folder = self.folder()
        launched = observers.startswith("launch ")
        asked = dict(asked, folder=folder, monitor=MONITOR, observers=[] if launched else observers.split())
        environment = dict(self.environment, MSPROBE_RUN=json.dumps(asked), OMP_NUM_THREADS="1",
                           PYTHONPATH=os.pathsep.join([HERE, os.path.join(HERE, self.framework),
                                                       os.environ.get("PYTHONPATH", "")]))
        if launched:
            statuses, output = self._launch(observers.split()[1], folder, environment)
        elif self.processes > 1:
            statuses, output = self._run_several(folder, environment)
        else:
            statuses, output = self._fork(folder, environment)
        self.assertEqual(set(statuses), {0}, "with \"%s\": %s" % (observers, output[-4000:]))
        if observers and observers != "witness":
            for words in GAVE_UP:
                self.assertNotIn(words, output)
        reports = []
        for rank in range(self.processes):
            with open(os.path.join(folder, "report%d.json" % rank), encoding="utf-8") as file:
                reports.append(json.load(file))
        return Observed(folder, output, reports)

    def _path(self):
        return os.path.join(HERE, self.framework, self.script)

    def _fork(self, folder, environment):
        shutil.copy(self._path(), os.path.join(folder, "script.py"))
        status, output = run_forked(folder, list(self.arguments), environment, self.timeout)
        return [status], output

    def _together(self):
        """The command that starts the script in all its processes."""
        if self.processes == 1:
            return [sys.executable, self._path()] + list(self.arguments)
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        # -r and -t: their default of 0 is unreadable to PyTorch 1.13 under Python 3.11.
        return [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(self.processes),
                "--master_addr", "127.0.0.1", "--master_port", str(port), "-r", "1", "-t", "3",
                "--log_dir", "logs", self._path()] + list(self.arguments)

    def _launch(self, observer, folder, environment):
        kind, *rest = observer.split(":")
        config = os.path.join(folder, "config.json")
        out = os.path.join(folder, "dump" if kind == "dump" else "monitor")
        if kind == "dump":
            level, task, *mode = rest
            settings = {"task": task, "level": level, task: {"summary_mode": mode[0]} if mode else {},
                        "dump_path": out}
            command = [MSPROBE, "dump", "-c", config, "--"]
        else:
            settings = MONITOR
            command = [MSPROBE, "monitor", "run", "-c", config, "-o", out, "--"]
        with open(config, "w", encoding="utf-8") as file:
            json.dump(settings, file)
        return self._run(command + self._together(), folder, environment)

    def _run_several(self, folder, environment):
        return self._run(self._together(), folder, environment)

    def _run(self, command, folder, environment):
        run = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             timeout=self.timeout, env=dict(os.environ, **environment))
        return [run.returncode], run.stdout.decode("utf-8", "replace")

    # ---- the checks ----

    def check_harmless(self, observers=None, row=None):
        """Losses, gradients, parameters, buffers, optimizer and random generators after each step, bit for bit. `row`: the name of a
        row of what works, where the other checks of a training are not asked."""
        with self.checking("works", row) if row else self.checking("harmless"):
            plain = [report["steps"] for report in self.run_training().reports]
            self.assertTrue(all(plain), "no step was reported")
            for observer in observers or (self.observers if ALL else self.usual):
                run = self.run_training(observer)
                seen = [report["steps"] for report in run.reports]
                if seen != plain:
                    again = [report["steps"] for report in self._run_anew("", {}).reports]
                    self.assertEqual(again, plain, "the training is not deterministic by itself")
                self.assertEqual(seen, plain, observer)
                self.check_observed(observer, run)

    def check_observed(self, observers, run):
        """There is a result to every observer."""
        if "structure" in observers:
            with open(os.path.join(run.dump(), "construct.json"), encoding="utf-8") as file:
                self.assertGreater(len(json.load(file)), 1, observers + run.output)
        elif "dump:" in observers and "debug" not in observers and "overflow_check" not in observers:
            self.assertGreater(len(run.data()), 1, observers + run.output)
        if "monitor" in observers:
            self.assertTrue(glob.glob(os.path.join(run.folder, "monitor", "**", "*.csv"), recursive=True),
                            observers + run.output)

    def check_true(self, level="mix"):
        """Statistics of a dump against float64: of what the framework's own hooks see, and of its own files."""
        with self.checking("true"):
            seen = [report["witness"] for report in self.run_training("witness", steps=1).reports]
            run = self.run_training("dump:%s:tensor" % level, steps=1)
            for rank in range(self.processes):
                described = dict(tensors_of(run.data(rank=rank)))
                self.assertGreater(len(seen[rank]), 3)
                missing = [name for name in seen[rank]
                           if name not in described and not any(part in name for part in self.unseen)]
                self.assertEqual(missing[:20], [], "of %d" % len(seen[rank]))
                for name, (shape, *numbers) in seen[rank].items():
                    if name in described:
                        self.assertEqual(described[name]["shape"], shape, name)
                        self.assert_statistics(name, described[name], numbers)
                self.check_files(run.dump(rank=rank), described)

    def check_monitor(self):
        """Rows of the monitor against float64: of what the framework itself gives out as gradients, moments and parameters."""
        run = self.run_training("monitor", steps=3, note=True)
        noted = [report["noted"] for report in run.reports]
        self.assertTrue(noted[0])
        for table, step in ((table, step) for table in noted[0] for step in noted[0][table]):
            rows = [self.rows_of_monitor(run, rank, table, step) for rank in range(self.processes)]
            expected = [of_rank[table][step] for of_rank in noted]
            self.assertEqual(set().union(*rows), set().union(*expected), "%s, step %s" % (table, step))
            for name in set().union(*expected):
                self.assert_monitored([of_rank.get(name) for of_rank in rows], [of_rank.get(name) for of_rank in expected],
                                      "%s, %s, step %s" % (table, name, step))

    def rows_of_monitor(self, run, rank, table, step):
        """{stage and name: (number of elements, largest, smallest, mean, norm)}"""
        path, = glob.glob(os.path.join(run.folder, "monitor", "*rank%d-*" % rank, "%s_%s-%s.csv" % (table, step, step)))
        with open(path, newline="", encoding="utf-8") as file:
            return {"%s:%s" % (row["vpp_stage"], row["name"]): (math.prod(json.loads(row["shape"])),) + tuple(
                float(row[key]) for key in ("max", "min", "mean", "norm")) for row in csv.DictReader(file)}

    def assert_monitored(self, rows, expected, place):
        """A rank's row is of the whole tensor that it noted, or of the part that it keeps: then all ranks' are of the whole."""
        whole = next(statistics for statistics in expected if statistics)
        size = math.prod(whole[0])
        pairs = [(row, of_rank) for row, of_rank in zip(rows, expected) if row]
        if pairs[0][0][0] != size:
            sizes, largest, smallest, means, norms = zip(*[row for row, _ in pairs if row[0]])
            self.assertEqual(sum(sizes), size, place)
            mean = sum(share * mean for share, mean in zip(sizes, means)) / size
            pairs = [((size, max(largest), min(smallest), mean, math.hypot(*norms)), whole)]
        for (_, *seen), (_, *numbers) in pairs:
            for key, actual, number in zip(("max", "min", "mean", "norm"), seen, numbers):   # written with six decimals
                self.assertLessEqual(abs(actual - number), 2e-6 * max(abs(number), 1), "%s, %s: %r, float64 says %r"
                                     % (place, key, actual, number))

    def check_files(self, folder, described):
        import torch_training
        import torch
        looked_at = 0
        for name, tensor in described.items():
            path = os.path.join(folder, "dump_tensor_data", tensor.get("data_name") or "")
            if tensor.get("data_name"):
                _, *numbers = torch_training.statistics(torch.load(path))
                self.assert_statistics(name, tensor, numbers)
                looked_at += 1
        self.assertGreater(looked_at, 3)

    def assert_statistics(self, name, described, numbers):
        for key, expected in zip(("Max", "Min", "Mean", "Norm"), numbers):
            actual = described.get(key)
            if expected is None or isinstance(actual, (bool, type(None))):
                continue
            actual = float(actual)
            if math.isnan(expected) or math.isinf(expected):
                self.assertEqual(repr(actual), repr(expected), "%s %s" % (name, key))
            else:
                scale = max(abs(number) for number in numbers[:2] if number is not None) or 1.0
                self.assertLessEqual(abs(actual - expected), 1e-6 * max(abs(expected), scale * 1e-2) + 1e-45,
                                     "%s %s: %r, float64 says %r" % (name, key, actual, expected))

    def check_leak_free(self, observers="", steps=200):
        """Memory, descriptors and threads between a quarter of the steps and their end, beside the plain run."""
        with self.checking("leak-free"):
            marks = [steps // 4, steps]
            growth = []
            for observer in ("", observers or self.measured):
                reports = self.run_training(observer, steps=steps, measure=marks).reports
                measured = [[report["resources"][str(mark)] for mark in marks] for report in reports]
                growth.append([{key: after[key] - before[key] for key in after} for before, after in measured])
            for plain, observed in zip(*growth):
                self.assertEqual(observed["descriptors"], plain["descriptors"])
                self.assertEqual(observed["threads"], plain["threads"])
                for kind in ("memory", "device memory"):
                    self.assertLess(observed.get(kind, 0) - plain.get(kind, 0), 4 << 20, growth)

    def check_leaves_nothing(self, observers=None):
        """Hooks, replaced functions, attributes and threads after stop() and close(), beside those of a plain run: compilers
        and others leave something themselves."""
        with self.checking("leaves nothing"):
            plain = self.run_training().reports
            for observer in observers or (self.observers if ALL else self.usual):
                if observer.startswith("launch "):   # nobody stops it before the script ends
                    continue
                for theirs, report in zip(plain, self.run_training(observer).reports):
                    # What the framework itself replaces is a number that no two runs share.
                    left = {place: change for place, change in report["left"].items()
                            if change != theirs["left"].get(place)
                            and not (place in theirs["left"] and isinstance(change[1], int))}
                    self.assertEqual(left, {}, observer)
                    # Fewer may be left: what a plain run compiled is found in a cache.
                    left = collections.Counter(report["threads"]) - collections.Counter(theirs["threads"])
                    self.assertEqual(left, collections.Counter(), observer)

    def check_fault_named(self, level="mix", task="tensor", name=""):
        """compare leads to the module that was made to compute wrong: what it calls it, where that is not `fault`; a list
        holds the answers of the ranks, where some only receive what others computed wrong."""
        with self.checking("fault named"):
            good = self.run_training("dump:%s:%s" % (level, task), steps=1)
            where = {"faulty_ranks": self.faulty_ranks} if self.faulty_ranks else {}
            bad = self.run_training("dump:%s:%s" % (level, task), steps=1, fault=self.fault, **where)
            out = self.folder()
            self.msprobe("compare", os.path.join(bad.folder, "dump"), os.path.join(good.folder, "dump"), "-o", out)
            with open(os.path.join(out, "summary.json"), encoding="utf-8") as file:
                first = [pair["first_divergence"] for pair in json.load(file)["pairs"]]
            name = name or self.named_as or self.fault
            self.assertEqual([origin and origin["layer"].split(" ")[0] for origin in first],
                             name if isinstance(name, list) else [name] * len(first))

    def check_everything(self):
        """All checks, also after one has failed."""
        failures = []
        if self.notes:
            try:
                with self.checking("works", self.subject + ": rows of the monitor against float64"):
                    self.check_monitor()
            except AssertionError as failure:
                failures.append("monitor: %s" % failure)
        for name in CHECKS:
            if name in self.not_asked:
                self.write_result(self.subject, name, "not run: " + self.not_asked[name])
                continue
            if os.environ.get("MSPROBE_QUICK") and name in self.not_quick:
                continue
            try:
                getattr(self, "check_" + re.sub("[ -]", "_", name))()
            except AssertionError as failure:
                failures.append("%s: %s" % (name, failure))
        if failures:
            self.fail("\n\n".join(failures))


def tensors_of(data):
    """(name of a row, its description) of every tensor in the data of a dump.json."""
    for call, entry in data.items():
        if not isinstance(entry, dict):
            continue
        for part, value in entry.items():
            if part in ("input_args", "input", "input_kwargs"):
                yield from _inside("%s.input" % call, value)
            elif part == "output":
                yield from _inside("%s.output" % call, value)
            elif part == "parameters":
                yield from _inside("%s.parameters" % call, value)
            elif isinstance(value, list) and call.endswith("parameters_grad"):
                yield from _inside("%s.%s" % (call, part), value)


def _inside(name, value):
    if isinstance(value, dict):
        if value.get("type") in ("torch.Tensor", "mindspore.Tensor") and "shape" in value:
            yield name, value
            return
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    else:
        return
    for key, item in items:
        yield from _inside("%s.%s" % (name, key), item)
