"""workers_test.py MSPROBE SOURCE [--long SEED] [CLASS[.test]...]: hostile dumps through every command that runs or writes code. No canary may die.

Each command gets one dump that holds all attacks of attacks.py, and a harmless one of the same kind: what the hostile run starts,
connects to and writes must be a part of what the harmless run does (canaries.py). A last call of each dump is harmless and has to be
answered: what refuses everything would pass as well. `--long SEED` draws mutations for half a minute per command instead of a few.
"""
import glob
import json
import os
import shutil
import struct
import subprocess
import sys
import unittest
import zlib

try:
    import torch
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

import attacks
import canaries

HERE = os.path.dirname(os.path.abspath(__file__))
MSPROBE, SOURCE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
SEED = int(sys.argv[sys.argv.index("--long") + 1]) if "--long" in sys.argv else 0
PYTHON = sys.executable
TRACES = canaries.strace_works()
MUTATIONS = 20000 if SEED else 400
LIMIT = 900 if SEED else 100
HARMLESS = {"pytorch": "Torch.abs.9.forward", "mindtorch": "Torch.abs.9.forward", "mindspore": "Mint.abs.9.forward"}
CHECKERS = {"run_ut": (), "acc_check": (), "multi_run_ut": ("-n", "2"), "multi_acc_check": ("-n", "2"), "run_overflow_check": None}


class Case(unittest.TestCase):
    def setUp(self):
        self.canaries = canaries.Canaries()
        self.addCleanup(self.canaries.close)

    def tearDown(self):
        self.assertEqual(self.canaries.dead()[:20], [])

    def path(self, *parts):
        return self.canaries.path(*parts)

    def dump(self, name, framework, task, data):
        """With a harmless call behind the others."""
        harmless = {HARMLESS[framework]: {"input_args": [attacks.tensor()], "input_kwargs": {}, "output": [attacks.tensor("output.pt")]}}
        path = attacks.write_dump(self.path(name), framework, task, {**data, **harmless})
        folder = self.path(name, "dump_tensor_data")
        torch.save(torch.tensor([[1.0, -2.0], [3.0, -4.0]]), os.path.join(folder, "input.pt"))
        torch.save(torch.tensor([[1.0, 2.0], [3.0, 4.0]]), os.path.join(folder, "output.pt"))
        os.mkfifo(os.path.join(folder, "fifo.pt"))
        os.symlink("/etc/passwd", os.path.join(folder, "link.pt"))
        with open(os.path.join(folder, "evil.pt"), "wb") as file:
            file.write(b"cos\nsystem\n(S'" + self.canaries.marker("evil").command.encode() + b"'\ntR.")
        return path

    def attack(self, framework, name="hostile", task="tensor", few=False):
        every = 7 if few else 1
        data = {**attacks.name_calls(framework, self.canaries, every), **attacks.argument_calls(self.canaries, every), **attacks.tensor_file_calls(self.canaries),
                **attacks.mutations(SEED, MUTATIONS // every, framework, self.canaries, attacks.known_operators(SOURCE))}
        return self.dump(name, framework, task, data)

    def results(self):
        """Lines of the result files of the hostile run."""
        lines = []
        for path in glob.glob(self.path("hostile_out", "*result*.csv")):
            with open(path, encoding="utf-8-sig") as file:
                lines += file.read().splitlines()
        return lines

    def run_both(self, command_of, hostile, harmless, allowed=("hostile_out", "harmless_out")):
        """Output of the hostile run. `command_of(dump, output)` gives a command line."""
        folders = [self.path(name) for name in allowed]
        if not TRACES:
            code, output = canaries.run(command_of(hostile, self.path("hostile_out")), self.canaries, LIMIT)
            self.assertIsNotNone(code, output[-500:])
            return output
        _, _, usual = canaries.traced(command_of(harmless, self.path("harmless_out")), self.canaries, folders, LIMIT)
        code, output, acts = canaries.traced(command_of(hostile, self.path("hostile_out")), self.canaries, folders, LIMIT)
        self.assertIsNotNone(code, "no end in %d s: %s" % (LIMIT, output[-500:]))
        self.assertNotIn(canaries.SECRET, output)
        self.assertEqual(sorted(acts - usual)[:20], [], output[-500:])
        return output


class Checkers(Case):
    """run_ut and its kin: names and arguments reach a worker that could run them."""

    def check(self, command, framework, task="tensor", few=False):
        flags = CHECKERS[command]

        def command_of(dump, output):
            os.makedirs(output, exist_ok=True)
            line = [MSPROBE, command, dump, "--python", PYTHON]
            return line + (["--device-type", "cpu"] if framework == "pytorch" else []) + (["-o", output] + list(flags) if flags is not None else [])
        output = self.run_both(command_of, self.attack(framework, task=task, few=few), self.dump("harmless", framework, task, {}))
        if flags is not None:
            rows = [line for line in self.results() if line.startswith(HARMLESS[framework].rsplit(".", 1)[0] + ",")]
            self.assertEqual(len(rows), 1, output[-1000:])
            self.assertIn("pass", rows[0], output[-1000:])
        else:
            self.assertIn("operators", output)

    def test_run_ut_of_pytorch(self):
        self.check("run_ut", "pytorch")

    def test_run_ut_with_drawn_inputs(self):
        self.check("run_ut", "pytorch", task="statistics")

    def test_run_ut_of_mindspore(self):
        self.check("run_ut", "mindspore")

    def test_acc_check_of_mindtorch(self):
        self.check("acc_check", "mindtorch")

    def test_several_workers(self):
        self.check("multi_run_ut", "pytorch", few=True)
        self.canaries.calls.clear()

    def test_several_workers_of_26(self):
        self.check("multi_acc_check", "pytorch", few=True)

    def test_overflows(self):
        self.check("run_overflow_check", "pytorch", few=True)


class Scripts(Case):
    """repro and op_generate: what they write is run, by a Python that nothing holds back."""

    def run_scripts(self, scripts, harmless):
        def command_of(dump, output):
            os.makedirs(output, exist_ok=True)
            return [PYTHON, "-B", os.path.join(HERE, "script_runner.py"), "20"] + (scripts if dump == "hostile" else [harmless])
        self.run_both(command_of, "hostile", "harmless", allowed=("scripts", "harmless_out", "hostile_out"))

    def written(self, commands):
        """Runs command lines of msprobe, each by itself, and does not care how they end."""
        for command in commands:
            try:
                subprocess.run([MSPROBE] + command, cwd=self.canaries.work, env=self.canaries.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, timeout=20, check=False)
            except subprocess.TimeoutExpired:
                self.fail("no end in 20 s: " + " ".join(command))

    def chosen(self, path, framework):
        with open(path) as file:
            data = json.load(file)["data"]
        # A function that writes a file where one is called, always; of the rest a part.
        believed = [name for name, call in data.items() if name.startswith("Functional.triplet") and '"torch.save"' in json.dumps(call)]
        rest = [name for name in data if name not in believed and name != HARMLESS[framework]]
        step = max(1, len(rest) // (4000 if SEED else 200))
        return believed + rest[SEED % step::step]

    def repro(self, framework):
        path = self.attack(framework)
        os.mkdir(self.path("scripts"))
        names = self.chosen(path, framework)
        self.written(["repro", path, name, "-o", self.path("scripts", "r%d" % place)] for place, name in enumerate(names))
        self.written([["repro", path, HARMLESS[framework], "-o", self.path("scripts", "harmless")]])
        harmless = self.path("scripts", "harmless", "run.py")
        self.assertTrue(os.path.exists(harmless))
        scripts = [script for script in glob.glob(self.path("scripts", "r*", "run.py"))]
        self.run_scripts(scripts + [harmless], harmless)

    def test_repro_of_pytorch(self):
        self.repro("pytorch")

    def test_repro_of_mindtorch(self):
        self.repro("mindtorch")

    def test_repro_of_modules_and_ranks(self):
        attack = {"Module.%s.forward.0" % name: {"input_args": [attacks.text(self.canaries.marker(name).command)], "input_kwargs": {}, "parameters": {}, "output": [attacks.tensor("output.pt")]}
                  for name in ("fc.os.system", "fc.Linear'); import os; os.system('true", 'x.@CLASS@', "a.torch.os.system", "a.__import__('os')")}
        attack.update({"Distributed.%s.0.forward" % name: {"input_args": [attacks.tensor(), attacks.text(self.canaries.marker(name).command)], "input_kwargs": {
            "group": {"type": "ProcessGroup", "value": "os.system"}, "op": {"type": "ReduceOp", "value": "torch.os.system"}}, "output": [attacks.tensor("output.pt")]}
                       for name in ("os.system", "init_process_group", "TCPStore", "all_reduce", "broadcast", "rpc.rpc_sync")})
        path = self.dump("hostile", "pytorch", "tensor", attack)
        os.mkdir(self.path("scripts"))
        self.written(["repro", path, name, "-o", self.path("scripts", "r%d" % place)] for place, name in enumerate(attack))
        self.written([["repro", path, HARMLESS["pytorch"], "-o", self.path("scripts", "harmless")]])
        harmless = self.path("scripts", "harmless", "run.py")
        self.run_scripts(glob.glob(self.path("scripts", "r*", "run.py")) + [harmless], harmless)

    def op_generate(self, framework):
        path = self.attack(framework)
        os.mkdir(self.path("scripts"))
        commands = []
        for place, name in enumerate(self.chosen(path, framework) + [HARMLESS[framework]]):
            os.mkdir(self.path("scripts", "o%d" % place))
            config = self.path("scripts", "o%d" % place, "config.json")
            with open(config, "w") as file:
                json.dump({"dump_json_path": path, "api_name": name.rsplit(".", 1)[0], "extract_api_path": self.path("scripts", "o%d" % place, "entry.json"),
                           "data_mode": ("random_data", "real_data")[place % 2]}, file)
            commands.append((["-f", "mindspore"] if framework == "mindspore" else []) + ["op_generate", "-i", config, "-o", self.path("scripts", "o%d" % place)])
        self.written(commands)
        scripts = [script for script in glob.glob(self.path("scripts", "o*", "*.py"))]
        harmless = [script for script in scripts if os.path.basename(script).startswith(HARMLESS[framework].rsplit(".", 1)[0])]
        self.assertTrue(harmless)
        self.run_scripts(scripts, harmless[0])

    def test_op_generate_of_pytorch(self):
        self.op_generate("pytorch")

    def test_op_generate_of_mindspore(self):
        self.op_generate("mindspore")


TRAINING = """import torch, torch.nn as nn
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
loss = model(torch.ones(2, 2)).sum()
loss.backward()
"""


class Trainings(Case):
    """Files that are read inside of a training: they must neither harm it nor run in it."""

    def training(self):
        with open(self.path("train.py"), "w") as file:
            file.write(TRAINING)
        return [PYTHON, "-B", self.path("train.py")]

    def test_isolate_by_a_hostile_reference(self):
        training = self.training()
        data = {"Module.%s.forward.0" % name: {"input_args": [value, attacks.tensor()], "input_kwargs": {"key": value}, "output": [value, attacks.tensor("output.pt")],
                                               "parameters": {"weight": value}}
                for name in ("0.Linear", "1.ReLU", "0.os.system", "1.torch.save") for value in list(attacks.hostile_values(self.canaries.marker(name)))[:1]}
        hostile = {**data, **attacks.argument_calls(self.canaries, 20), **attacks.tensor_file_calls(self.canaries), **attacks.name_calls("pytorch", self.canaries, 20)}
        paths = {}
        harmless = {"Module.0.Linear.forward.0": {"input_args": [attacks.tensor()], "input_kwargs": {}, "output": [attacks.tensor("output.pt")]}}
        for name, calls in (("hostile", hostile), ("harmless", harmless)):
            os.makedirs(self.path(name + "_run", "step0"))
            self.dump(os.path.join(name + "_run", "step0", "rank"), "pytorch", "tensor", calls)
            paths[name] = self.path(name + "_run")
        self.run_both(lambda dump, output: [MSPROBE, "isolate", "--reference", dump, "-o", output, "--"] + training, paths["hostile"], paths["harmless"])

    def test_hostile_configurations(self):
        training = self.training()
        command = self.canaries.marker("configuration").command
        hostile = [
            {"task": "statistics", "level": "L1", "list": ["__import__('os').system('%s')" % command, "os.system", "(?s:.*)"], "scope": [], "dump_path": self.path("hostile_out")},
            {"task": "tensor", "level": "mix", "scope": ["torch.os.system", "torch.save"], "list": [], "dump_path": self.path("hostile_out"), "tensor": {"scope": ["$(%s)" % command]}},
            {"task": "free_benchmark", "level": "L1", "dump_path": self.path("hostile_out"), "free_benchmark": {"pert_mode": "os.system", "list": [command]}},
            {"task": "statistics", "level": "L1", "dump_path": "$(%s)" % command, "extra": {"__reduce__": [command]}},
        ]
        for place, config in enumerate(hostile):
            with open(self.path("config%d.json" % place), "w") as file:
                json.dump(config, file)
        with open(self.path("plain.json"), "w") as file:
            json.dump({"task": "statistics", "level": "L1", "dump_path": self.path("harmless_out")}, file)
        for place in range(len(hostile)):
            self.run_both(lambda dump, output: [MSPROBE, "dump", "--config", dump, "--"] + training, self.path("config%d.json" % place), self.path("plain.json"),
                          allowed=("hostile_out", "harmless_out", ""))
            shutil.rmtree(self.path("hostile_out"), ignore_errors=True)
            shutil.rmtree(self.path("harmless_out"), ignore_errors=True)


def frame(kind, sequence, payload):
    header = struct.pack("<IHHQQQII", 0x4F50534D, 1, kind, 77, sequence, len(payload), zlib.crc32(payload), 0)
    return header + payload


def frame_text(value):
    encoded = value.encode()
    return struct.pack("<I", len(encoded)) + encoded


class Peers(Case):
    """A training that is none: its calls come over the shared folder."""

    def feed(self, folder, calls):
        os.makedirs(folder, mode=0o700)
        data = struct.pack("<4f", 1, -2, 3, -4)
        with open(os.path.join(folder, "rank0.%016x.start" % 77), "wb") as file:
            file.write(frame(1, 0, struct.pack("<q", 0) + frame_text("pytorch")))
        for sequence, (name, record) in enumerate(calls.items(), 1):
            payload = struct.pack("<qq", 0, 0) + frame_text(name.rsplit(".", 1)[0]) + frame_text(json.dumps(record)) + struct.pack("<I", 1)
            payload += frame_text("input.pt") + frame_text("float32") + struct.pack("<BqqQ", 2, 2, 2, len(data))
            payload += b"\0" * (-len(payload) % 64) + data
            with open(os.path.join(folder, "rank0.%016x.%08d.call" % (77, sequence)), "wb") as file:
                file.write(frame(2, sequence, payload))
        with open(os.path.join(folder, "rank0.%016x.end" % 77), "wb") as file:
            file.write(frame(3, len(calls), struct.pack("<QQQ", len(calls), 0, 0)))

    def test_calls_of_a_shared_folder(self):
        harmless = {"Torch.abs.9.forward": {"input_args": [attacks.tensor()], "input_kwargs": {}, "output": [attacks.tensor()]}}
        hostile = {**attacks.name_calls("pytorch", self.canaries, 4), **attacks.argument_calls(self.canaries, 4), **harmless}
        for name, calls in (("hostile", hostile), ("harmless", harmless)):
            self.feed(self.path(name), calls)
            with open(self.path(name + ".json"), "w") as file:
                json.dump({"task": "run_ut", "run_ut": {"is_online": True, "nfs_path": self.path(name), "rank_list": [0]}}, file)

        def command_of(config, output):
            os.makedirs(output, exist_ok=True)
            return [MSPROBE, "run_ut", "-config", config, "-o", output, "--python", PYTHON, "--device-type", "cpu"]
        output = self.run_both(command_of, self.path("hostile.json"), self.path("harmless.json"), allowed=("hostile_out", "harmless_out", "hostile", "harmless"))
        self.assertIn("Torch.abs.9", "".join(self.results()), output[-1000:])


class Readers(Case):
    """Commands that only read: they start nothing at all."""

    def test_readers_start_nothing(self):
        hostile = self.attack("pytorch", few=True)
        folder, out = os.path.dirname(hostile), self.path("hostile_out")
        os.mkdir(out)
        commands = [["show", hostile], ["show", "--stats", folder], ["compare", hostile, hostile, "-o", out], ["nan_analyze", folder, "-o", out], ["recheck", folder, "-o", out],
                    ["graph", folder, "-o", out], ["compare", folder, folder, "-o", out, "--format", "html", "--force"]]
        for command in commands:
            with self.subTest(command=command[0]):
                if TRACES:
                    code, output, acts = canaries.traced([MSPROBE] + command, self.canaries, [out])
                    self.assertEqual({act for act in acts if act != "execve " + MSPROBE}, set(), output[-500:])
                else:
                    code, output = canaries.run([MSPROBE] + command, self.canaries)
                self.assertIsNotNone(code, output[-500:])

    def test_tables_of_hostile_names_start_nothing(self):
        """api_precision_compare reads what run_ut wrote, or what somebody says that it wrote."""
        hostile, checked, out = self.attack("pytorch", few=True), self.path("checked"), self.path("hostile_out")
        os.mkdir(checked)
        os.mkdir(out)
        code, output = canaries.run([MSPROBE, "run_ut", hostile, "--python", PYTHON, "--device-type", "cpu", "-o", checked], self.canaries, LIMIT)
        (details,) = glob.glob(os.path.join(checked, "*details*.csv"))
        command = [MSPROBE, "api_precision_compare", details, details, "-o", out]
        if TRACES:
            code, output, acts = canaries.traced(command, self.canaries, [out])
            self.assertEqual({act for act in acts if act != "execve " + MSPROBE}, set(), output[-500:])
        else:
            code, output = canaries.run(command, self.canaries)
        self.assertEqual(code, 0, output[-500:])


if __name__ == "__main__":
    if not TRACES:
        print("strace cannot trace here: files, connections and words of the canaries are looked at, system calls are not")
    unittest.main(argv=sys.argv[:1] + [name for name in sys.argv[3:] if name[0].isupper()])
