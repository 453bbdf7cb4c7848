"""Every command that runs operators or trainings, on a GPU: what it finds there, and that the training goes its way bit by bit.

Skipped without a GPU. MSPROBE_TEST_DEVICE=cpu runs the same on the CPU. All checks begin at once and share the processors.
"""
import concurrent.futures
import contextlib
import csv
import glob
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import unittest

DEVICE = os.environ.setdefault("MSPROBE_TEST_DEVICE", "cuda")
KIND = DEVICE.partition(":")[0]
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
import harness  # noqa: E402
import torch  # noqa: E402

if KIND == "cuda" and torch.cuda.device_count() == 0:
    print("there is no GPU: skipped")
    sys.exit(77)

TRAIN = [sys.executable, os.path.join(HERE, "commands_train.py")]
MSPROBE = os.path.abspath(harness.MSPROBE)
# Processes run in folders of their own.
PACKAGES = os.pathsep.join(map(os.path.abspath, filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))))
ENVIRONMENT = dict(os.environ, CUBLAS_WORKSPACE_CONFIG=":4096:8", OMP_NUM_THREADS="1", NO_COLOR="1", PYTHONWARNINGS="ignore",
                   PYTHONPATH=PACKAGES)
PROCESSES = threading.Semaphore(max(2, (os.cpu_count() or 2) - 2))
CHECKS = {}


def check(told):
    """A decorator: function(case) is a test; `told`: what it is called in the table of docs/compatibility.md."""

    def keep(function):
        CHECKS[function.__name__] = (told, function)
        return function

    return keep


class Case(unittest.TestCase):
    """What a check works with: a folder, processes in it, assertions."""

    maxDiff = None

    def __init__(self, folder):
        super().__init__()
        self.folder = folder
        self.failures = []

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    @contextlib.contextmanager
    def noted(self):
        """What is not right in this block is told at the end, beside the rest."""
        try:
            yield
        except Exception as error:
            self.failures.append("%s: %s" % (type(error).__name__, error))

    def run_process(self, *words, status=0, environment=None):
        """What it printed on stdout, and on stderr behind it."""
        with PROCESSES:
            run = subprocess.run([str(word) for word in words], cwd=self.folder, env=dict(ENVIRONMENT, **(environment or {})),
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, timeout=200, check=False)
        told = run.stdout + run.stderr
        self.assertEqual(run.returncode, status, "%s\nends with %d:\n%s" % (" ".join(map(str, words)), run.returncode, told[-8000:]))
        return told

    def msprobe(self, *words, **options):
        return self.run_process(MSPROBE, *words, **options)

    def job(self, *words):
        return self.run_process(sys.executable, os.path.join(HERE, "commands_jobs.py"), *words)

    def train(self, *words):
        return self.run_process(*TRAIN, *words)

    def write(self, name, content):
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return self.path(name)

    def dump(self, name, *words, flags=()):
        """(dump.json of the first step, what the training said)"""
        said = self.msprobe("dump", "-o", name, *flags, "--", *TRAIN, *words)
        [path] = glob.glob(self.path(name, "step0", "rank*", "dump.json"))
        errors = glob.glob(self.path(name, "*", "*", "dump_error_info.log"))
        for log in errors:
            with open(log, encoding="utf-8") as file:
                self.fail("%s: %s" % (log, file.read()))
        for word in harness.GAVE_UP:
            self.assertNotIn(word, said)
        return path, said

    def rows(self, pattern):
        paths = glob.glob(self.path(*pattern.split("/")))
        self.assertEqual(len(paths), 1, "%s: %s" % (pattern, paths))
        with open(paths[0], encoding="utf-8-sig", newline="") as file:
            return list(csv.reader(file))

    def digest(self, said):
        found = re.findall(r"^(?:loss|digest) .*$", said, re.MULTILINE)
        self.assertRegex(found[-1] if found else said, "^digest ")
        return found


# ---- operators one by one ----

DEVICE_FLAGS = ("-d", "0", "--device-type", KIND, "--python", sys.executable)
WRONG = """
import torch
import torch.nn.functional as F

def wrong(x, *more, **named):
    y = F.gelu(x, *more, **named)
    return torch.cat([y[:1] * 1.5, y[1:]])

operators = {"Functional.gelu": {"reference": F.gelu, "device": wrong}}
"""


def verdicts(case, folder):
    return {row[0]: row[1:] for row in case.rows(folder + "/accuracy_checking_result_*.csv")[1:]}


def shortened(cell):
    """A number to nine decimals; anything else as it is."""
    try:
        return "%.9f" % float(cell)
    except ValueError:
        return cell


@check("run_ut, multi_run_ut, acc_check, api_precision_compare, run_overflow_check")
def operators_one_by_one(case):
    recorded, said = case.dump("recorded", "--dropout", "0.1", flags=("--task", "tensor", "--level", "L1"))
    case.assertEqual(case.digest(said), case.digest(case.train("--dropout", "0.1")))
    answer = case.msprobe("run_ut", recorded, "-o", "single", "--strict", *DEVICE_FLAGS)
    case.assertRegex(answer, r"device +%s" % (DEVICE if ":" in DEVICE or KIND == "cpu" else DEVICE + ":0"))
    found = verdicts(case, "single")
    bad = {name: row for name, row in found.items() if {"error", "warning"} & {word.lower() for word in row[:2]}}
    with case.noted():
        case.assertEqual(bad, {}, answer)
    with case.noted():
        case.assertGreater(sum(row[0] == "pass" for row in found.values()), 30, found)
        case.assertGreater(sum(row[1] == "pass" for row in found.values()), 15, found)
    with concurrent.futures.ThreadPoolExecutor(5) as pool:
        commands = [("multi_run_ut", recorded, "-o", "multi", "-n", "3", "--strict", *DEVICE_FLAGS),
                    ("acc_check", recorded, "-o", "newer", "--strict", *DEVICE_FLAGS),
                    ("run_ut", recorded, "-o", "wrong", "--strict", "--reference", case.write("refs.py", WRONG), *DEVICE_FLAGS),
                    ("run_overflow_check", recorded, *DEVICE_FLAGS)]
        answers = list(pool.map(lambda words: case.msprobe(*words), commands))
    with case.noted():
        case.assertEqual(verdicts(case, "multi"), found)
        # Some kernels of a GPU add up in another order in each run.
        multi, single = ([[shortened(cell) for cell in row] for row in case.rows(folder + "/accuracy_checking_details_*.csv")]
                         for folder in ("multi", "single"))
        case.assertEqual(multi, single)
    with case.noted():
        newer = verdicts(case, "newer")
        case.assertEqual({name: row for name, row in newer.items() if "error" in [word.lower() for word in row[:2]]}, {}, answers[1])
    with case.noted():
        wrong = verdicts(case, "wrong")
        case.assertEqual({name for name, row in wrong.items() if "error" in row[:2]}, {"Functional.gelu.0", "Functional.gelu.1"}, answers[2])
    with case.noted():
        case.assertNotIn("ABNORMAL", answers[3])
    # Some standards have fixed bounds: a few sums miss them even where a device is compared with itself.
    single, wrong = (glob.glob(case.path(name, "accuracy_checking_details_*.csv"))[0] for name in ("single", "wrong"))
    missed = {}
    for name, tested in (("itself", single), ("planted", wrong)):
        answer = case.msprobe("api_precision_compare", tested, single, "-o", name, "--standard-version", "26", "--lang", "en")
        judged = {row[0]: row[1:] for row in case.rows(name + "/api_precision_compare_result_*.csv")[1:]}
        missed[name] = {operator for operator, row in judged.items() if "error" in row[:2]}
        with case.noted():
            case.assertGreater(sum("pass" in row[:2] for row in judged.values()), 30, judged)
            case.assertLess(len(missed[name]), 6, answer)
    case.assertEqual(missed["planted"] - missed["itself"], {"Functional.gelu.0", "Functional.gelu.1"})


@check("run_ut of a step under autocast")
def operators_under_autocast(case):
    recorded, said = case.dump("halves", "--autocast", "bfloat16", flags=("--task", "tensor", "--level", "L1"))
    case.assertEqual(case.digest(said), case.digest(case.train("--autocast", "bfloat16")))
    answer = case.msprobe("run_ut", recorded, "-o", "out", "--strict", *DEVICE_FLAGS)
    found = verdicts(case, "out")
    # What autocast makes halves of is judged by a product in float32, near zero more strictly than halves are exact.
    wrong = {name: row for name, row in found.items() if "error" in row[:2] and not re.match("Functional.linear|Torch.matmul", name)}
    case.assertEqual(wrong, {}, answer)
    case.assertGreater(sum(row[0] == "pass" for row in found.values()), 30, found)


@check("repro")
def one_call_alone(case):
    recorded, _ = case.dump("recorded", flags=("--task", "tensor", "--level", "mix"))
    device = () if KIND == "cpu" else ("--device", DEVICE)
    for name in ("Functional.gelu.0.forward", "Functional.layer_norm.0.backward", "Functional.linear.0.forward"):
        case.msprobe("repro", os.path.dirname(recorded), name, "-o", name)
        said = case.run_process(sys.executable, case.path(name, "run.py"), *device, "-o", case.path(name, "again"))
        with case.noted():
            case.assertRegex(said, "equal to the captured one|off by up to [0-9.]+e-0[5-9]")
        with case.noted():
            case.assertIn("WITHIN BOUNDS", case.msprobe("recheck", case.path(name, "again")))


# ---- perturbed calls ----

@check("free_benchmark, every mode, forward")
def free_benchmark_forward(case):
    case.job("free_benchmark", "forward")


@check("free_benchmark, every mode, backward")
def free_benchmark_backward(case):
    case.job("free_benchmark", "backward")


@check("free_benchmark, an unstable call; fix")
def free_benchmark_unstable(case):
    case.job("unstable")
    shown = case.msprobe("show", "unstable_forward")
    case.assertIn("Torch.tan", shown)


@check("free_benchmark, tensors are changed as on the host")
def perturbations(case):
    case.job("perturbations")


@check("free_benchmark, unmodified script")
def free_benchmark_launched(case):
    case.write("config.json", {"task": "free_benchmark", "dump_path": "rows", "level": "L1", "free_benchmark": {"pert_mode": "change_value"}})
    said = case.msprobe("free_benchmark", "-c", "config.json", "--", *TRAIN, "--steps", "2", "--dropout", "0.1")
    case.assertEqual(case.digest(said), case.digest(case.train("--steps", "2", "--dropout", "0.1")))
    case.assertRegex(said, r"[1-9]\d* calls checked")
    case.assertGreater(len(case.rows("rows/step1/rank*/free_benchmark.csv")), 5)


@check("online_dispatch")
def online_dispatch(case):
    case.job("online_dispatch", "0")


@check("online_dispatch, beside the training")
def online_dispatch_beside(case):
    case.job("online_dispatch", "1")


@check("dump --repeat")
def noise_floors(case):
    for words, least, most in (((), 3.0, 8.0), (("--autocast", "bfloat16"), 0.5, 8.0)):
        name = "floors%d" % len(words)
        recorded, said = case.dump(name, "--dropout", "0.1", *words, flags=("--repeat", "3", "--level", "L1"))
        with case.noted():
            case.assertEqual(case.digest(said), case.digest(case.train("--dropout", "0.1", *words)))
        with case.noted():
            case.assertNotIn("has no noise floor", said)
        with open(recorded, encoding="utf-8") as file:
            data = json.load(file)["data"]
        floors = {call: entry["noise_floor"]["output"] for call, entry in data.items() if "noise_floor" in entry}
        case.assertGreater(sum(call.endswith("forward") for call in floors), 30, sorted(data))
        case.assertGreater(sum(call.endswith("backward") for call in floors), 20, sorted(data))
        digits = [output["digits"] for floor in floors.values() for output in floor.values()]
        linear = [output["digits"] for call, floor in floors.items() if "linear" in call and "forward" in call for output in floor.values()]
        case.assertTrue(linear and all(least <= number <= most for number in linear), (linear, digits))


@check("isolate")
def isolate(case):
    case.msprobe("dump", "--task", "tensor", "--level", "L0", "-o", "good", "--", *TRAIN, "--dropout", "0.1")
    faults = {"clean": ((), set()), "forward": (("--scale", "blocks.1.mlp.fc1"), {("blocks.1.mlp.fc1", "forward")}),
              "backward": (("--wrong-backward", "blocks.0.mlp.act"), {("blocks.0.mlp.act", "backward")})}

    def judged(name):
        said = case.msprobe("isolate", "--reference", "good", "-o", name, "--", *TRAIN, "--dropout", "0.1", *faults[name][0])
        rows = case.rows(name + "/step0/rank*/isolate.csv")
        rows = [dict(zip(rows[0], row)) for row in rows[1:]]
        return name, said, rows

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for name, said, rows in pool.map(judged, faults):
            with case.noted():
                guilty = [row for row in rows if row["verdict"] == "guilty"]
                expected = faults[name][1]
                case.assertEqual({row["module"] for row in guilty}, {module for module, _ in expected}, (name, guilty, said[-3000:]))
                case.assertLessEqual(expected, {(row["module"], row["direction"]) for row in guilty}, (name, guilty))
                case.assertEqual({row["verdict"] for row in rows} - {"good", "guilty"}, set(), [row for row in rows if row["verdict"] not in ("good", "guilty")])
                case.assertGreater(len(rows), 60, name)
                case.assertIn("GUILTY: 1 of" if expected else "CLEAN", said)


# ---- beside a training ----

@check("grad_probe")
def grad_probe(case):
    case.job("grad_probe")


@check("monitor, API")
def monitor(case):
    case.job("monitor")


@check("config_check, packs of GPU and CPU")
def config_check(case):
    numbers = {}
    for name in ("float", "half"):
        for device in ("device", "host"):
            words = (sys.executable, os.path.join(HERE, "commands_jobs.py"), "config_check", "%s_%s.zip" % (name, device))
            case.run_process(*words, environment={} if device == "device" else {"MSPROBE_TEST_DEVICE": "cpu"})
            said = case.run_process(sys.executable, "-c", "import json, sys, zipfile; archive = zipfile.ZipFile(sys.argv[1]); print(json.dumps("
                                    "{name: archive.read(name).decode() for name in archive.namelist() if name.startswith(('dataset', 'weights'))}))",
                                    "%s_%s.zip" % (name, device))
            numbers[name, device] = {member: json.loads(text) for member, text in json.loads(said).items()}
        case.assertGreaterEqual(len(numbers[name, "host"]), 4, numbers)
        with case.noted():
            case.assertEqual(apart(numbers[name, "host"], numbers[name, "device"]), [])
        answer = case.msprobe("config_check", "%s_host.zip" % name, "%s_device.zip" % name, "-o", "compared_" + name)
        case.assertNotRegex(answer, r"(?m)^ *\d+\. (weights|dataset)")


def apart(left, right, path="", relative=2e-6):
    """Where two structures differ: [(path, left, right)]."""
    if isinstance(left, dict) and isinstance(right, dict) and left.keys() == right.keys():
        return [found for key in left for found in apart(left[key], right[key], "%s/%s" % (path, key), relative)]
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        return [found for key, pair in enumerate(zip(left, right)) for found in apart(*pair, "%s/%d" % (path, key), relative)]
    if isinstance(left, float) and isinstance(right, float):
        near = left == right or math.isnan(left) and math.isnan(right) or abs(left - right) <= relative * max(abs(left), abs(right), 1e-30)
        return [] if near else [(path, left, right)]
    return [] if left == right and type(left) is type(right) else [(path, left, right)]


# ---- dumps against each other ----

def first_divergences(case, test, bench, out):
    answer = case.msprobe("compare", test, bench, "-o", out)
    with open(case.path(out, "summary.json"), encoding="utf-8") as file:
        return [pair["first_divergence"] for pair in json.load(file)["pairs"]], answer


@check("compare, GPU against CPU")
def compare_with_cpu(case):
    for task in ("statistics", "tensor"):
        flags = ("--level", "mix", "--task", task)
        case.dump("host_" + task, "--sgd", "--device", "cpu", flags=flags)
        case.dump("device_" + task, "--sgd", flags=flags)
        case.dump("wrong_" + task, "--sgd", "--scale", "blocks.1.mlp.fc1", flags=flags)
        found, answer = first_divergences(case, "device_" + task, "host_" + task, "same_" + task)
        with case.noted():
            case.assertEqual(found, [None], answer)
        found, answer = first_divergences(case, "wrong_" + task, "host_" + task, "different_" + task)
        with case.noted():
            case.assertEqual([origin and origin["layer"].split(" ")[0] for origin in found], ["blocks.1.mlp.fc1"], answer)


@check("nan_analyze")
def nan_analyze(case):
    case.dump("nan", "--nan", "0", flags=("--level", "mix"))
    answer = case.msprobe("nan_analyze", "nan", "-o", "found")
    case.assertRegex(answer, r"FOUND: rank 0 made the first NaN, in Torch.log.0.forward")
    case.dump("good", flags=("--level", "mix"))
    case.assertIn("GOOD: no NaN", case.msprobe("nan_analyze", "good", "-o", "none"))


# ---- tensors of every kind ----

def tensors_in(value, path=""):
    """{path: description} of the tensors in an entry of a dump."""
    if isinstance(value, dict) and value.get("type") == "torch.Tensor":
        return {path: value}
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return {where: found for key, item in items for where, found in tensors_in(item, "%s/%s" % (path, key)).items()}


def dumped(folder, capture):
    [path] = glob.glob(os.path.join(folder, capture, "dump", "step0", "rank*", "dump.json"))
    with open(path, encoding="utf-8") as file:
        return os.path.dirname(path), {call: tensors_in(entry) for call, entry in json.load(file)["data"].items()}


def same_bits(left, right):
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    return left.numel() == 0 or torch.equal(left.contiguous().reshape(-1).view(torch.uint8), right.contiguous().reshape(-1).view(torch.uint8))


def true_statistics(tensor):
    """In float64, of what is on the host."""
    if tensor.dtype is torch.bool:
        return {"Max": float(tensor.any()), "Min": float(tensor.all())}
    wide = (tensor.to(torch.complex128).abs() if tensor.is_complex() else tensor.to(torch.float64)).reshape(-1)
    return {"Max": wide.max(), "Min": wide.min(), "Mean": wide.mean(), "Norm": wide.norm()}


@check("dump of tensors of every kind")
def tensors_of_every_kind(case):
    script = os.path.join(HERE, "commands_tensors.py")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda device: case.run_process(sys.executable, script, device[0], environment={"MSPROBE_TEST_DEVICE": device[1]}),
                      (("device", DEVICE), ("host", "cpu"))))
    given = torch.load(case.path("host", "tensors.pt"), weights_only=False)
    problems, compared, captures = [], 0, sorted(name for name in os.listdir(case.path("host")) if "_" in name)
    case.assertEqual(len(captures), 10)
    for capture in captures:
        (of_host, host), (of_device, device) = (dumped(case.path(side), capture) for side in ("host", "device"))
        case.assertEqual(list(host), list(device), capture)
        for call, tensors in host.items():
            # Rows, checksums and names of files are those of the same tensors on the CPU.
            compared += len(tensors)
            problems += [(capture, call) + found for found in apart(tensors, device[call])]
        for folder in (of_host, of_device):
            for log in glob.glob(os.path.join(folder, "dump_error_info.log")):
                with open(log, encoding="utf-8") as file:
                    problems.append((log, file.read()))
        entries = device.get("Module.holder.Holder.forward.0", {})
        for path, row in entries.items():
            name = path.split("/")[-1] if path.startswith("/input_args/0/") else list(given)[int(path.split("/")[-1])]
            tensor = given[name]
            if tensor.layout is torch.strided and tensor.numel() and "xor" not in capture:
                for key, number in true_statistics(tensor).items():
                    problems += apart(float(number), float("nan") if row[key] is None else float(row[key]), "%s %s %s" % (capture, path, key))
            if "data_name" in row:
                files = [torch.load(os.path.join(folder, "dump_tensor_data", row["data_name"]), map_location="cpu", weights_only=False)
                         for folder in (of_device, of_host)]
                if not all(same_bits(tensor, file) for file in files):
                    problems.append((capture, path, "the file is not the tensor", files, tensor))
        if capture.startswith(("L0", "mix")):
            case.assertEqual(len(entries), 2 * len(given), capture)
    case.assertGreater(compared, 1000)
    case.assertEqual(problems[:40], [], "%d of %d" % (len(problems), compared))


class Commands(harness.FrameworkCase):
    framework, module = "cuda", "torch"
    subject = "commands"

    @classmethod
    def setUpClass(cls):
        cls.pool = concurrent.futures.ThreadPoolExecutor(len(CHECKS))
        folder = tempfile.mkdtemp(prefix="msprobe_commands_")
        cls.addClassCleanup(shutil.rmtree, folder, True)
        chosen = os.environ.get("MSPROBE_TEST_CHECKS", "").split() or CHECKS
        cls.running = {}
        for name in chosen:
            case = Case(os.path.join(folder, name))
            os.makedirs(case.folder)
            cls.running[name] = cls.pool.submit(timed, CHECKS[name][1], case)


def timed(function, case):
    begin = time.monotonic()
    function(case)
    case.assertEqual(case.failures, [], "\n\n".join(case.failures))
    return time.monotonic() - begin


def test_of(name):
    def test(self):
        if name not in self.running:
            self.skipTest("not chosen by MSPROBE_TEST_CHECKS")
        with self.checking("works", CHECKS[name][0]):
            print("%s: %.1f s" % (name, self.running[name].result()), flush=True)

    return test


for check_name in CHECKS:
    setattr(Commands, "test_" + check_name, test_of(check_name))

if __name__ == "__main__":
    unittest.main(verbosity=2)
