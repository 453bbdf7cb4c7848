"""What a file may name, and what an operator may do: frames straight to the worker, dumps through the commands, scripts that were written."""
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

MSPROBE = os.environ["MSPROBE"]
STAGE = os.environ["PYTHONPATH"].split(os.pathsep)[0]
ACCURACY = os.path.join(STAGE, "msprobe", "_accuracy")
sys.path.append(ACCURACY)
import frames  # noqa: E402  pylint: disable=wrong-import-position

# Names that are listed, and next to them what a list must never let through, should it ever hold them.
VOCABULARY = {"Functional": ["linear", "triplet_margin_with_distance_loss", "warnings"],
              "Torch": ["add", "linalg.norm", "save", "load", "nn", "os", "hub", "jit", "compile", "Generator", "os.system", "linalg.torch.save",
                        "serialization.save"],
              "Tensor": ["add", "__class__"], "Aten": ["addmm", "__name__"], "NPU": ["npu_mish"],
              "torch.dtype": ["float32", "save", "nn", "strided"], "torch.layout": ["strided", "float32"],
              "torch.memory_format": ["channels_last", "load"], "numpy": ["float32", "bool", "loadtxt", "str_", "ndarray", "os"]}


def text(value):
    return b"s" + raw(value)


def raw(value):
    encoded = value.encode()
    return struct.pack("<I", len(encoded)) + encoded


def constant(kind, name):
    return b"D" + raw(kind) + raw(name)


def a_list(*values):
    return b"l" + struct.pack("<I", len(values)) + b"".join(values)


def a_dict(**values):
    return b"d" + struct.pack("<I", len(values)) + b"".join(raw(key) + value for key, value in values.items())


class Worker:
    """As the program starts it."""

    def __init__(self, scratch, *device):
        ours, theirs = socket.socketpair()
        self._memory = [os.open(os.path.join(scratch, "..", "memory%d" % number), os.O_RDWR | os.O_CREAT) for number in range(2)]
        given = [theirs.fileno()] + self._memory

        def place():
            for number, descriptor in enumerate([os.dup2(one, 100 + index) for index, one in enumerate(given)]):
                os.dup2(descriptor, 3 + number)
        words = list(device) or ["cpu", "0", "", "", ""]
        self._process = subprocess.Popen([sys.executable, os.path.join(ACCURACY, "worker.py")] + words, preexec_fn=place, close_fds=False,
                                         stdin=subprocess.DEVNULL)
        theirs.close()
        self._socket = ours
        lists = b"".join(raw(kind) + struct.pack("<I", len(names)) + b"".join(map(raw, names)) for kind, names in VOCABULARY.items())
        self._send(frames.START, raw(scratch) + struct.pack("<qI", 0, len(VOCABULARY)) + lists)
        kind, payload = self._receive()
        assert kind == frames.READY and payload[0] == 0, payload
        self.missing = frames.Reader(payload[1:], None).text()

    def _send(self, kind, payload):
        self._socket.sendall(frames.HEADER.pack(frames.MAGIC, kind, len(payload)) + payload)

    def _receive(self):
        magic, kind, size = frames.HEADER.unpack(frames.receive(self._socket, frames.HEADER.size))
        assert magic == frames.MAGIC
        return kind, frames.receive(self._socket, size)

    def call(self, kind, api, args=a_list(), kwargs=a_dict(), flags=0):
        """The message of what failed; None: it ran."""
        self._send(frames.CALL, raw(kind) + raw(api) + bytes((flags,)) + raw("") * 3 + struct.pack("<q", -1) + raw("refused by the program") +
                   args + kwargs + a_list())
        _, payload = self._receive()
        return frames.Reader(payload[1:], None).text() if payload[0] else None

    def end(self):
        self._socket.close()
        self._process.wait(timeout=30)
        for descriptor in self._memory:
            os.close(descriptor)


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="msprobe_closed_")
        self.addCleanup(shutil.rmtree, self.folder)

    def path(self, name, content=None):
        path = os.path.join(self.folder, name)
        if content is not None:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(content)
        return path

    def run_msprobe(self, *words, **variables):
        ended = subprocess.run([MSPROBE] + list(words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=300,
                               check=False, cwd=self.folder, env=dict(os.environ, **variables), stdin=subprocess.DEVNULL)
        return ended.stdout


class AWorkerByItself(Case):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.mkdtemp(prefix="msprobe_closed_")
        os.mkdir(os.path.join(cls.place, "scratch"))
        cls.worker = Worker(os.path.join(cls.place, "scratch"))

    @classmethod
    def tearDownClass(cls):
        cls.worker.end()
        shutil.rmtree(cls.place)

    def test_listed_operators_run(self):
        one, two = b"i" + struct.pack("<q", 1), b"f" + struct.pack("<d", 2.0)
        self.assertIsNone(self.worker.call("Torch", "add", a_list(one, two)))
        self.assertIn("linalg_norm", self.worker.call("Torch", "linalg.norm", a_list(one)))
        self.assertIn("add", self.worker.call("Tensor", "add", a_list(one, two)))
        self.assertIn("addmm", self.worker.call("Aten", "addmm", a_list(one)))

    def test_names_outside_of_the_list_are_refused(self):
        for kind, api in (("Torch", "matmul"), ("Torch", "eval"), ("Torch", "nn.functional.linear"), ("Torch", "_C"), ("Functional", "torch.save"),
                          ("Functional", "handle_torch_function"), ("Tensor", "map_"), ("Tensor", "apply_"), ("Tensor", "add.__call__"),
                          ("Aten", "from_file"), ("Aten", "save"), ("Aten", "addmm.default"), ("NPU", "npu_fast_gelu_x"), ("Torch", "")):
            message = self.worker.call(kind, api, a_list(text("x")))
            self.assertRegex(message, "not on the list|There is not bench function", "%s.%s" % (kind, api))
        # Types that nothing is known of run nothing at all.
        for kind in ("builtins", "os", "subprocess", "importlib", "sys", "VF", "Distributed", "Mint", ""):
            self.assertIsNone(self.worker.call(kind, "system", a_list(text("touch " + self.path("ran")))))
        self.assertFalse(os.path.exists(self.path("ran")))

    def test_what_is_no_operator_is_refused_even_from_a_list(self):
        mark = self.path("saved")
        for kind, apis in VOCABULARY.items():
            for api in apis:
                if kind in ("Functional", "Torch", "Tensor", "Aten") and api not in ("linear", "add", "addmm", "linalg.norm",
                                                                                    "triplet_margin_with_distance_loss"):
                    message = self.worker.call(kind, api, a_list(text(mark), text(mark)))
                    self.assertRegex(message, "not an operator of PyTorch|no scope|has no attribute|object", "%s.%s" % (kind, api))
        self.assertFalse(os.path.exists(mark))

    def test_a_call_that_the_program_does_not_know_is_never_run(self):
        self.assertEqual(self.worker.call("Torch", "add", a_list(text("x")), flags=8), "refused by the program")

    def test_constants_are_of_their_type_wherever_they_stand(self):
        mark = self.path("saved")
        for kind, name in (("torch.dtype", "save"), ("torch.dtype", "nn"), ("torch.dtype", "strided"), ("torch.dtype", "float64"),
                           ("torch.layout", "float32"), ("torch.memory_format", "load"), ("torch.device", "save"), ("torch", "save"),
                           ("numpy", "float32"), ("Torch", "add"), ("Functional", "linear")):
            value = constant(kind, name)
            for args, kwargs in ((a_list(value), a_dict()), (a_list(a_list(value)), a_dict()), (a_list(a_dict(key=value)), a_dict()),
                                 (a_list(text("x"), text(mark), text("/x")), a_dict(distance_function=value)),
                                 (a_list(text("x"), text(mark), text("/x")), a_dict(distance_function=a_list(value)))):
                message = self.worker.call("Functional", "triplet_margin_with_distance_loss", args, kwargs)
                self.assertEqual(message, "%s is not a %s here" % (name, kind))
        self.assertFalse(os.path.exists(mark))

    def test_scalars_of_numpy_are_numbers(self):
        try:
            import numpy  # noqa: F401  pylint: disable=unused-import,import-outside-toplevel
        except ImportError:
            self.skipTest("NumPy is not installed")
        one = b"i" + struct.pack("<q", 1)
        self.assertIsNone(self.worker.call("Torch", "add", a_list(b"n" + raw("float32") + one, one)))
        for name, value in (("loadtxt", text("http://127.0.0.1/")), ("float64", one), ("str_", text("x")), ("float32", text("1")), ("ndarray", one),
                            ("os", one), ("float32", a_list(one)), ("fromfile", text("/etc/hostname"))):
            self.assertRegex(self.worker.call("Torch", "add", a_list(b"n" + raw(name) + value, one)), "is not a number")

    def test_it_can_do_nothing_but_compute(self):
        self.assertEqual(self.worker.missing, "")


OPERATORS = '''
import ctypes, os, signal, socket, subprocess, tempfile

def the_error_of(action):
    def run(*args):
        try:
            action()
        except BaseException as error:
            raise RuntimeError("%s: %s" % (type(error).__name__, error))
        raise RuntimeError("it was done")
    return run

def write(path):
    with open(path, "w") as file:
        file.write("x")

def scratch():
    with tempfile.NamedTemporaryFile() as file:
        file.write(b"x")
    write("here")

def variables():
    own = dict(os.environ)
    with open("/proc/self/environ", "rb") as file:
        seen = str(own).encode() + file.read()
    raise RuntimeError("a canary" if b"canary" in seen else "none is seen")

def parent():
    with open("/proc/%d/environ" % os.getppid(), "rb") as file:
        raise RuntimeError("a canary" if b"canary" in file.read() else "none is seen")

def core():
    import resource
    raise RuntimeError(str(resource.getrlimit(resource.RLIMIT_CORE)))

def memory():
    import mmap, resource
    most = resource.getrlimit(resource.RLIMIT_DATA)[0]
    if most != resource.RLIM_INFINITY:  # else it would not fail
        mmap.mmap(-1, most, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)  # MAP_NORESERVE

def descriptors():
    links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    raise RuntimeError(str([os.readlink(link) for link in links if os.path.exists(link) and os.readlink(link).endswith("kept")]))

actions = {
    "socket": lambda: socket.create_connection(("127.0.0.1", int(os.environ["TORCH_PORT"]))),
    "local": lambda: socket.socket(socket.AF_UNIX),
    "packets": lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM),
    "shell": lambda: os.system("touch MARK") and 1 / 0,
    "program": lambda: subprocess.check_call(["touch", "MARK"]),
    "exec": lambda: os.execv("/bin/touch", ["touch", "MARK"]),
    "fork": lambda: os.fork(),
    "write": lambda: write("MARK"),
    "append": lambda: open("KEPT", "a"),
    "remove": lambda: os.remove("KEPT"),
    "rename": lambda: os.rename("KEPT", "MARK"),
    "folder": lambda: os.mkdir("MARK"),
    "link": lambda: os.symlink("/", "MARK"),
    "mode": lambda: os.chmod("KEPT", 0o777),
    "kill": lambda: os.kill(os.getppid(), 0),
    "namespace": lambda: ctypes.CDLL(None).unshare(0x10000000) and 1 / 0,
    "scratch": scratch, "variables": variables, "parent": parent, "core": core, "descriptors": descriptors,
    "memory": memory,
}
operators = {name: the_error_of(action) for name, action in actions.items()}
'''
EXPECTED = {"socket": "protocol", "local": "protocol", "packets": "protocol", "shell": "division|permitted", "program": "permitted|denied",
            "exec": "permitted", "fork": "permitted", "write": "denied|permitted", "append": "denied|permitted", "remove": "denied|permitted",
            "rename": "denied|permitted|cross-device", "folder": "denied|permitted", "link": "denied|permitted", "mode": "permitted",
            "kill": "permitted", "namespace": "division", "scratch": "was done", "variables": "none is seen", "parent": "denied|permitted",
            "core": r"\(0, 0\)", "descriptors": r"\[\]", "memory": "allocate memory"}


def tensor():
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 1.0, "Min": 0.0, "Mean": 0.5, "Norm": 1.0, "requires_grad": False}


class WhatAnOperatorMayDo(Case):
    def setUp(self):
        super().setUp()
        self.path("kept", "x")
        self.path("refs.py", OPERATORS.replace("MARK", self.path("mark")).replace("KEPT", self.path("kept")))
        self.listening = socket.socket()
        self.listening.bind(("127.0.0.1", 0))
        self.listening.listen()
        self.addCleanup(self.listening.close)

    def check(self, command, framework="pytorch", kind="Custom"):
        data = {"%s.%s.0.forward" % (kind, name): {"input_args": [tensor()], "input_kwargs": {}, "output": [tensor()]} for name in EXPECTED}
        header = {"task": "statistics", "level": "L1", "framework": framework, "dump_data_dir": None}
        if framework == "mindspore":
            header.update(task="tensor", dump_data_dir="dump_tensor_data")
            for entry in data.values():
                entry["input_args"] = entry["output"] = []
        path = self.path(command + framework + ".json", json.dumps(dict(header, data=data)))
        temporary = os.path.join(self.folder, "temporary" + command + framework)
        os.mkdir(temporary)
        kept = os.open(self.path("kept"), os.O_RDONLY)
        os.set_inheritable(kept, True)
        words = [MSPROBE, command, path, "--reference", self.path("refs.py"), "--python", sys.executable]
        words += [] if command == "run_overflow_check" else ["-o", self.path("out" + command), "-q"]
        ended = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=300, check=False,
                               cwd=self.folder, close_fds=False,
                               env=dict(os.environ, TMPDIR=temporary, MY_SECRET="canary", ASCEND_PWD="canary", TORCH_AUTH="canary", CUDA_CREDENTIAL="canary",
                                        NCCL_X="https://u:canary@h/p", LAUNCH="x --api-key canary",
                                        TORCH_PORT=str(self.listening.getsockname()[1])))
        os.close(kept)
        said = ended.stdout
        folder = self.path("out" + command)
        if os.path.isdir(folder):
            (name,) = [one for one in os.listdir(folder) if "result" in one]
            with open(os.path.join(folder, name), encoding="utf-8-sig") as file:
                said += file.read()
        for name, expected in EXPECTED.items():
            line = next((line for line in reversed(said.splitlines()) if ".%s.0" % name in line), said)
            self.assertRegex(line, expected, name)
        self.assertFalse(os.path.exists(self.path("mark")))
        with open(self.path("kept")) as file:
            self.assertEqual(file.read(), "x")
        self.assertEqual(os.listdir(temporary), [])

    def test_run_ut(self):
        self.check("run_ut")

    def test_multi_acc_check(self):
        self.check("multi_acc_check")

    def test_run_overflow_check(self):
        self.check("run_overflow_check")

    def test_run_ut_of_mindspore(self):
        self.check("run_ut", "mindspore", "Mint")


WITHOUT_LANDLOCK = '''
import os, sys
sys.path.insert(0, sys.argv[1])
import confine
assert confine.close_calls(read_only=True) is None
def refused(action):
    try:
        action()
    except OSError:
        return True
print([refused(action) for action in (
    lambda: open("mark", "w"), lambda: open("kept", "a"), lambda: os.open("kept", os.O_RDWR), lambda: os.open("kept", os.O_RDONLY | os.O_TRUNC),
    lambda: os.mkdir("mark"), lambda: os.remove("kept"), lambda: os.rename("kept", "mark"), lambda: os.truncate("kept", 0), lambda: os.fork())],
    refused(lambda: open("kept").close()), refused(lambda: __import__("threading").Thread(target=int).start()))
'''


class WithoutLandlock(Case):
    def test_the_filter_holds_files_as_well(self):
        self.path("kept", "x")
        said = subprocess.run([sys.executable, self.path("try.py", WITHOUT_LANDLOCK), ACCURACY], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              universal_newlines=True, timeout=60, check=False, cwd=self.folder).stdout
        self.assertIn("[True, True, True, True, True, True, True, True, True] None None", said)
        self.assertEqual(sorted(os.listdir(self.folder)), ["kept", "try.py"])


def call(*args, **kwargs):
    return {"input_args": list(args), "input_kwargs": kwargs, "output": []}


class Dumps(Case):
    def dump(self, name, framework, data, task="statistics"):
        return self.path(name + "/dump.json", json.dumps({"task": task, "level": "L1", "framework": framework, "data": data,
                                                          "dump_data_dir": "dump_tensor_data" if task == "tensor" else None}))

    def test_no_name_of_a_call_runs_anything_else(self):
        mark = self.path("ran")
        shell = {"type": "str", "value": "touch " + mark}
        for number, (framework, kind) in enumerate((("pytorch", "Torch"), ("pytorch", "Functional"), ("pytorch", "Tensor"), ("pytorch", "Aten"),
                                                    ("pytorch", "NPU"), ("mindspore", "Mint"), ("mindspore", "MintFunctional"),
                                                    ("mindtorch", "Torch"), ("mindtorch", "Functional"))):
            names = ("os.system", "os.popen", "sys.exit", "subprocess.call", "importlib.import_module", "builtins.exec", "hub.load", "jit.load",
                     "load", "save", "compile", "torch.save", "_C._jit_pass", "nn.os", "linalg.os")
            data = {"%s.%s.0.forward" % (kind, name): call(shell) for name in names}
            good = "%s.%s.0.forward" % (kind, {"NPU": "npu_mish", "Functional": "gelu", "MintFunctional": "relu"}.get(kind, "exp"))
            data[good] = call(tensor())
            task = "statistics" if framework == "pytorch" else "tensor"  # of which MindSpore is not needed
            path = self.dump("names%d" % number, framework, data, task)
            folder = self.path("out%d" % number)
            self.run_msprobe("acc_check" if number % 2 else "run_ut", path, "-o", folder, "-q", "--python", sys.executable)
            (result,) = [name for name in os.listdir(folder) if "result" in name]
            with open(os.path.join(folder, result), encoding="utf-8-sig") as file:
                content = file.read()
            # One bad call never ends the run: there is a row for each.
            for name in data:
                self.assertRegex(content, re.escape(name[:-8]) + (",SKIP,SKIP" if name != good or task == "tensor" else ",pass"))
            if framework == "pytorch":
                self.run_msprobe("run_overflow_check", path, "--python", sys.executable)
            self.assertFalse(os.path.exists(mark), (framework, kind))

    def test_functions_are_no_arguments(self):
        mark = self.path("saved")
        functions = [{"type": kind, "value": value} for kind in ("torch.dtype", "torch.layout", "torch.memory_format", "torch.device", "function",
                                                                 "builtin_function_or_method", "numpy.loadtxt", "torch.save", "type")
                     for value in ("torch.save", "torch.load", "os.system", "save")]
        data = {"Functional.triplet_margin_with_distance_loss.%d.forward" % number:
                call({"type": "str", "value": "x"}, {"type": "str", "value": mark}, {"type": "str", "value": "/x"}, distance_function=function)
                for number, function in enumerate(functions)}
        data["Tensor.map_.0.forward"] = call(tensor(), tensor(), functions[0])
        path = self.dump("functions", "pytorch", data)
        for command in ("run_ut", "run_overflow_check"):
            self.run_msprobe(command, path, "--python", sys.executable)
        for number, function in enumerate(functions):
            target = self.path("repro%d" % number)
            said = self.run_msprobe("repro", path, "Functional.triplet_margin_with_distance_loss.%d.forward" % number, "-o", target)
            if os.path.exists(target + "/run.py"):
                self.assertEqual(function["type"], "torch.device", said)
                subprocess.run([sys.executable, target + "/run.py"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120, check=False)
        self.assertFalse(os.path.exists(mark))

    def written_script(self, record, **more):
        """The folder of a script for gelu with an argument more, which was written into the dump afterwards, as somebody could."""
        folder = self.path("dump")
        os.makedirs(folder + "/dump_tensor_data", exist_ok=True)
        torch.save(torch.ones(2), folder + "/dump_tensor_data/a.pt")
        entry = call(dict(tensor(), data_name="a.pt"))
        entry["output"] = [dict(tensor(), data_name="a.pt")]
        name = more.get("name", "Module.act.GELU.forward.0")
        path = self.dump("dump", "pytorch", {name: entry}, "tensor")
        target = self.path("script")
        shutil.rmtree(target, ignore_errors=True)
        said = self.run_msprobe("repro", path, name, "-o", target)
        self.assertTrue(os.path.exists(target + "/run.py"), said)
        changed = target + "/dump/dump.json"
        with open(changed) as file:
            document = json.load(file)
        document["data"][name][more.get("place", "input_args")] = [record]
        with open(changed, "w") as file:
            json.dump(document, file)
        return target

    def run_script(self, target, *words):
        return subprocess.run([sys.executable, target + "/run.py"] + list(words), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              universal_newlines=True, timeout=120, check=False, cwd=self.folder).stdout

    def test_scripts_look_up_in_lists_alone(self):
        for kind, value in (("torch.dtype", "torch.save"), ("torch.dtype", "torch._dynamo"), ("torch.layout", "torch.nn"),
                            ("torch.memory_format", "torch.torch")):
            self.assertIn("is not a " + kind, self.run_script(self.written_script({"type": kind, "value": value})))
        self.assertIn("cannot be rebuilt", self.run_script(self.written_script({"type": "numpy.loadtxt", "value": "x"})))
        self.assertIn("cannot be rebuilt", self.run_script(self.written_script({"type": "function", "value": "torch.save"})))

    def test_scripts_read_and_write_beside_themselves(self):
        torch.save(torch.ones(2), self.path("elsewhere.pt"))
        for name in ("../../../elsewhere.pt", self.path("elsewhere.pt"), 5):
            record = dict(tensor(), data_name=name)
            self.assertIn("is not the name of a file", self.run_script(self.written_script(record)), name)
            target = self.written_script(record, place="output")
            self.assertIn("is not the name of a file", self.run_script(target, "-o", self.path("made")), name)
            shutil.rmtree(self.path("made"), ignore_errors=True)

    def test_scripts_load_tensors_and_no_programs(self):
        target = self.written_script(dict(tensor(), data_name="a.pt"))
        place = target + "/dump/dump_tensor_data/a.pt"
        self.assertIn("equal", self.run_script(self.written_script(dict(tensor(), data_name="a.pt"), place="output")) + "equal")
        scripted = torch.jit.script(torch.nn.Linear(2, 2))
        target = self.written_script(dict(tensor(), data_name="a.pt"))
        torch.jit.save(scripted, place)
        self.assertIn("not a zip file of a tensor", self.run_script(target))
        target = self.written_script(dict(tensor(), data_name="a.pt"))
        torch.save(torch.ones(2), place, _use_new_zipfile_serialization=False)
        self.assertIn("not a zip file of a tensor", self.run_script(target))
        target = self.written_script(dict(tensor(), data_name="a.pt"))
        torch.save({"a": torch.ones(2)}, place)
        self.assertIn("holds no tensor", self.run_script(target))

    def test_scripts_of_op_generate(self):
        mark = self.path("saved")
        for number, record in enumerate(({"type": "torch.dtype", "value": "torch.save"}, {"type": "torch.memory_format", "value": "torch.save"},
                                         {"type": "torch.x", "value": "torch.load"}, {"type": "numpy.loadtxt", "value": "x"},
                                         dict(tensor(), dtype="torch.save"), dict(tensor(), data_name="../../elsewhere.pt"))):
            data = {"Functional.triplet_margin_with_distance_loss.0.forward":
                    call({"type": "str", "value": "x"}, {"type": "str", "value": mark}, {"type": "str", "value": "/x"}, distance_function=record)}
            path = self.dump("op%d" % number, "pytorch", data)
            config = self.path("op%d.json" % number, json.dumps({
                "dump_json_path": path, "api_name": "Functional.triplet_margin_with_distance_loss.0", "extract_api_path": self.path("x%d.json" % number),
                "data_mode": "real_data" if "data_name" in record else "random_data"}))
            scripts = self.path("scripts%d" % number)
            os.mkdir(scripts)
            self.run_msprobe("op_generate", "-i", config, "-o", scripts)
            (script,) = os.listdir(scripts)
            ended = subprocess.run([sys.executable, os.path.join(scripts, script)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   universal_newlines=True, timeout=120, check=False, env=dict(os.environ, DEVICE="cpu"))
            self.assertRegex(ended.stdout, "is not a torch|cannot be (built|rebuilt)|not a tensor file of a dump")
        self.assertFalse(os.path.exists(mark))


class Isolate(Case):
    def test_the_reference_of_isolate_imports_nothing(self):
        from msprobe.pytorch.isolate.reference import Reference  # pylint: disable=import-outside-toplevel
        self.path("dump_tensor_data/a.npy", "x")
        self.path("dump.json", json.dumps({"data": {"Module.a.Linear.forward.0": {}}}))
        reference = Reference(self.folder)
        before = set(sys.modules)
        for dtype in ("torch._dynamo", "torch._inductor", "torch.onnx", "torch.save", "save", "torch.nn", 5, None):
            self.assertIsNone(reference.read({"data_name": "a.npy", "dtype": dtype, "shape": [2]}))
        self.assertEqual(set(sys.modules), before)


if __name__ == "__main__":
    unittest.main()
