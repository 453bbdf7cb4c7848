"""`msprobe dump -- python3 script.py`: capture of scripts that know nothing of it."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

try:
    import torch  # noqa: F401
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
SCRIPT = os.path.join(HERE, "plain_script.py")
MSPROBE = os.environ.get("MSPROBE") or shutil.which("msprobe")


def load(*parts):
    with open(os.path.join(*parts), encoding="utf-8") as file:
        return json.load(file)


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Launcher(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="msprobe_launcher_")
        self.addCleanup(shutil.rmtree, self.folder, True)

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def msprobe(self, *arguments, **options):
        run = subprocess.run([MSPROBE] + list(arguments), cwd=self.folder, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, timeout=300)
        output = run.stdout.decode(), run.stderr.decode()
        self.assertEqual(run.returncode, options.get("exit", 0), "\n".join(output))
        return output

    def capture(self, dump, *script_arguments, **options):
        flags = options.pop("flags", ["--level", "mix"])
        return self.msprobe("dump", "--dump_path", dump, *flags, "--", sys.executable, SCRIPT,
                            *script_arguments, **options)

    def plain(self, *script_arguments):
        run = subprocess.run([sys.executable, SCRIPT] + list(script_arguments), cwd=self.folder,
                             stdout=subprocess.PIPE, check=True, timeout=300)
        return run.stdout.decode()

    def names(self, dump, step=0, rank="rank"):
        return list(load(self.path(dump), "step%d" % step, rank, "dump.json")["data"])

    def test_two_runs_lead_to_the_layer_that_was_changed(self):
        with open(self.path("config.json"), "w") as file:
            json.dump({"dump_path": "a", "task": "tensor", "level": "mix"}, file)
        self.msprobe("-f", "pytorch", "dump", "-c", "config.json", "--", sys.executable, SCRIPT)
        with open(self.path("config.json"), "w") as file:
            json.dump({"dump_path": "b", "task": "tensor", "level": "mix"}, file)
        self.msprobe("-f", "pytorch", "dump", "-c", "config.json", "--", sys.executable, SCRIPT,
                     "--perturb", "blocks.0.mlp.fc1")
        for results in (("a", "b"), ("b", "a")):
            self.msprobe("compare", *results, "-o", "result_" + results[0])
            divergence = load(self.path("result_" + results[0]), "summary.json")["pairs"][0]["first_divergence"]
            self.assertEqual(divergence["layer"], "blocks.0.mlp.fc1 (Linear)")

    def test_equal_runs_are_identical(self):
        self.capture("a")
        self.capture("b")
        self.assertIn("IDENTICAL", self.msprobe("compare", "a", "b", "-o", "result")[0])

    def test_numbers_and_output_of_the_script_stay_as_they_are(self):
        output, said = self.capture("a", "--steps", "3")
        self.assertEqual(output, self.plain("--steps", "3"))
        self.assertIn("captured 3 steps of 1 rank in a", said)

    def test_steps_are_counted_by_the_optimizer(self):
        self.capture("a", "--steps", "3")
        self.assertEqual(sorted(os.listdir(self.path("a"))), ["step0", "step1", "step2"])
        names = [self.names("a", step) for step in range(3)]
        self.assertIn("Module.blocks.1.Block.backward.0", names[0])
        # The first step of Adam makes its state.
        self.assertEqual(names[1], names[2])
        construct = load(self.path("a"), "step1", "rank", "construct.json")
        self.assertIn("optimizer", construct.values())

    def test_without_an_optimizer_every_forward_is_a_step(self):
        self.capture("a", "--eval", "--steps", "3", flags=["--level", "L0"])
        self.assertEqual(sorted(os.listdir(self.path("a"))), ["step0", "step1", "step2"])
        self.assertEqual(self.names("a", 0), self.names("a", 2))
        self.assertIn("Module.head.Linear.forward.0", self.names("a", 2))

    def test_steps_of_the_configuration_are_selected(self):
        with open(self.path("config.json"), "w") as file:
            json.dump({"dump_path": "a", "level": "L1", "step": [1, "3-4"]}, file)
        self.msprobe("dump", "-c", "config.json", "--", sys.executable, SCRIPT, "--steps", "6")
        self.assertEqual(sorted(os.listdir(self.path("a"))), ["step1", "step3", "step4"])

    def test_processes_that_the_script_starts_capture_too(self):
        said = self.capture("a", "--processes", "2", "--steps", "2")[1]
        self.assertIn("captured 2 steps of 2 ranks in a", said)
        for step in ("step0", "step1"):
            self.assertEqual(sorted(os.listdir(self.path("a", step))), ["rank0", "rank1"])
        self.assertEqual(self.names("a", 1, "rank0"), self.names("a", 1, "rank1"))
        for rank in (0, 1):
            for step in ("step0", "step1"):
                layout = load(self.path("a"), step, "rank%d" % rank, "layout.json")
                self.assertEqual((layout["rank"], layout["world_size"]), (rank, 2))
            # What the optimizer was given, which a wrapper or the script may have exchanged.
            reduced = load(self.path("a"), "step1", "rank%d" % rank, "reduced_gradients.json")["data"]
            gradients = [name for name in self.names("a", 1, "rank%d" % rank) if name.endswith(".parameters_grad")]
            self.assertEqual(sorted(reduced), sorted(name + ".reduced" for name in gradients))

    def test_workers_of_torchrun_capture_too(self):
        # -r and -t: their default of 0 is unreadable to PyTorch 1.13 under Python 3.11.
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2",
                    "--master_addr", "127.0.0.1", "--master_port", str(free_port()),
                    "-r", "1", "-t", "1", "--log_dir", self.path("logs"), SCRIPT,
                    "--processes", "2", "--steps", "2"]
        alone = subprocess.run(torchrun, cwd=self.folder, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, timeout=300)
        if alone.returncode != 0:
            self.skipTest("torchrun does not start here, with or without msprobe: "
                          + alone.stdout.decode().strip().splitlines()[-1])
        said = self.msprobe("dump", "--dump_path", "a", "--level", "mix", "--", *torchrun)[1]
        self.assertIn("captured 2 steps of 2 ranks in a", said)
        for step in ("step0", "step1"):
            self.assertEqual(sorted(os.listdir(self.path("a", step))), ["rank0", "rank1"])
        self.assertEqual(self.names("a", 1, "rank0"), self.names("a", 1, "rank1"))

    def test_a_script_that_fails_fails_the_same_way(self):
        said = self.capture("a", "--fail", exit=1)[1]
        self.assertIn("RuntimeError: a script that fails", said)
        self.assertIn("captured 1 step", said)

    def test_a_killed_run_is_told_and_recovered(self):
        launcher = subprocess.Popen(
            [MSPROBE, "dump", "--dump_path", "a", "--level", "mix", "--", "sh", "-c",
             'echo $$ > pid; exec "$@"', "sh", sys.executable, SCRIPT, "--steps", "3", "--hang-at",
             "1"], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 120
        while not os.path.exists(self.path("hanging")) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.5)  # records reach the disk within a tenth of a second
        with open(self.path("pid")) as file:
            os.kill(int(file.read()), signal.SIGKILL)
        said = launcher.communicate(timeout=60)[1].decode()
        self.assertEqual(launcher.returncode, -signal.SIGKILL, said)
        self.assertIn("interrupted  step1/rank", said)
        said = self.msprobe("dump", "recover", "a")[0]
        self.assertIn("a/step1/rank: ", said)
        self.assertIn("Module.blocks.0.Block.backward.0", self.names("a", 1))

    def test_a_script_that_captures_itself_is_left_alone(self):
        with open(self.path("own.py"), "w") as file:
            file.write("from msprobe.pytorch import PrecisionDebugger\n"
                       "import torch\n"
                       "debugger = PrecisionDebugger(dump_path='own', level='L1')\n"
                       "model = torch.nn.Linear(2, 2)\n"
                       "debugger.start(model)\n"
                       "model(torch.ones(1, 2))\n"
                       "debugger.stop()\n"
                       "debugger.step()\n")
        self.msprobe("dump", "--dump_path", "a", "--level", "L0", "--", sys.executable, "own.py")
        found = [name for name in ("a", "own") if os.path.isdir(self.path(name))]
        self.assertEqual(len(found), 1, "one capture per process, not two")

    def test_the_level_is_mix_and_gives_way_where_a_script_names_no_model(self):
        self.msprobe("dump", "--dump_path", "a", "--", sys.executable, SCRIPT, "--steps", "1")
        names = self.names("a", 0)
        self.assertTrue(any(name.startswith("Module.") for name in names) and
                        any(name.startswith("Functional.") for name in names), names)
        with open(self.path("own.py"), "w") as file:
            file.write("from msprobe.pytorch import PrecisionDebugger\n"
                       "import torch\n"
                       "debugger = PrecisionDebugger()\n"
                       "debugger.start()\n"
                       "torch.nn.functional.relu(torch.ones(1, 2))\n"
                       "debugger.stop()\n"
                       "debugger.step()\n")
        said = self.msprobe("dump", "--dump_path", "b", "--", sys.executable, "own.py")[1]
        self.assertIn("start() is given no model: level L1", said)
        self.assertEqual(self.names("b", 0), ["Functional.relu.0.forward"])
        with open(self.path("b", "step0", "rank", "dump.json")) as file:
            self.assertEqual(json.load(file)["level"], "L1")

    def test_a_program_without_pytorch_runs_as_ever(self):
        output = self.msprobe("dump", "--dump_path", "a", "--", sys.executable, "-c",
                              "import sys; print('torch' in sys.modules)")
        self.assertEqual(output[0], "False\n")
        self.assertIn("nothing was captured in a", output[1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
