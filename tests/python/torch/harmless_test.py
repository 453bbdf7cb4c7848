"""A training computes with us, bit for bit, what it computes without us: every loss, gradient, parameter,
buffer, state of optimizer and random generator after every step, of models of many families.

usage: harmless_test.py [unittest arguments]     MSPROBE_HARMLESS=all: every mode, not only the usual ones
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

from harmless_models import MODELS

HERE = os.path.dirname(os.path.abspath(__file__))
IS_TORCH_2 = int(torch.__version__.split(".")[0]) >= 2
HAS_DTENSOR = IS_TORCH_2 and hasattr(torch.distributed, "device_mesh")
ALL = os.environ.get("MSPROBE_HARMLESS") == "all"

# What observes, and whether it is among the usual runs.
DUMPS = ["dump:%s:%s" % (level, task) for level in ("L0", "L1", "mix")
         for task in ("statistics", "statistics:md5", "tensor")]
USUAL = ["dump:L0:statistics:md5", "dump:mix:tensor", "dump:mix:statistics+monitor",
         "monitor+dump:L1:statistics", "grad_probe:L2"]
OBSERVERS = USUAL + [item for item in DUMPS + ["monitor", "monitor+dump:mix:tensor",
                                             "dump:L0:statistics+monitor",
                                             "monitor+dump:L0:statistics",
                                             "dump:mix:statistics+monitor+monitor"]
                     if item not in USUAL and ALL]
TRAININGS = {  # what is trained under it
    "plain": list(MODELS),
    # Layer and group norms refuse mixed types under CPU autocast of PyTorch 1.13.
    # PyTorch 2 hands an LSTM of bfloat16 to oneDNN, which refuses it on processors without its
    # instructions, with or without us.
    "amp": ["llama", "resnet_in_place", "gradient_penalty"]
           + ([] if IS_TORCH_2 else ["lstm_language_model"]),
    "accumulate": ["nano_gpt", "checkpointed_gpt", "mixture_of_experts", "resnet_in_place",
                   "tied_weight_with_main_grad"],
}


# What is asked of the functions while each of these records: (level, task, its section).
QUESTIONED = [(level, task, section) for level in ("L0", "L1", "mix")
              for task, section in (("statistics", {}), ("statistics", {"summary_mode": "md5"}), ("tensor", {}))]
QUESTIONED += [("L2", "tensor", {"list": ["Functional.linear.0.forward"]})]
if ALL:
    QUESTIONED += [(level, task, {}) for level in ("L0", "L1", "mix") for task in ("nan_check", "overflow_check", "structure")]
    QUESTIONED += [("debug", "statistics", {}), ("L1", "free_benchmark", {}), ("L1", "grad_probe", {"grad_level": "L1"})]
NAMES = os.path.join(HERE, "..", "..", "..", "config", "captured_apis.json")


class Harmless(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="msprobe_harmless_")
        self.addCleanup(shutil.rmtree, self.folder, True)

    def start(self, observers, variant, names, environment=None, folder=None):
        folder = folder or tempfile.mkdtemp(dir=self.folder)
        return subprocess.Popen([sys.executable, os.path.join(HERE, "harmless_run.py"), observers,
                                 variant, folder] + names, cwd=folder, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True,
                                env=dict(os.environ, **(environment or {})))

    def hashes(self, run, names):
        """{model: its hash after each step}"""
        output, _ = run.communicate(timeout=600)
        self.assertEqual(run.returncode, 0, output[-3000:])
        self.assertNotIn("switched off", output)
        self.assertNotIn("reported once", output)
        self.assertNotIn("training continues", output)
        found = {}
        for line in output.splitlines():
            if line.startswith("hash "):
                _, name, *steps = line.split()
                found[name] = steps
        self.assertEqual(list(found), names)
        return found

    def compare(self, variant, names, observers=OBSERVERS):
        plain = self.hashes(self.start("none", variant, names), names)
        for item in observers:
            with self.subTest(observers=item):
                self.assertEqual(self.hashes(self.start(item, variant, names), names), plain)

    def test_of_every_family(self):
        self.compare("plain", TRAININGS["plain"])

    def test_with_autocast(self):
        self.compare("amp", TRAININGS["amp"], OBSERVERS if ALL else USUAL[1:3])

    def test_with_gradients_accumulated(self):
        self.compare("accumulate", TRAININGS["accumulate"], OBSERVERS if ALL else USUAL[2:])

    def both(self, variant, names, *observers):
        """The hashes of both ranks; of one that observes alone where two observers are given."""
        folder = tempfile.mkdtemp(dir=self.folder)
        runs = [self.start(observers[rank % len(observers)], variant, names, {"RANK": str(rank), "WORLD_SIZE": "2"}, folder)
                for rank in range(2)]
        return [self.hashes(run, names) for run in runs]

    def test_with_two_processes(self):
        names = ["nano_gpt", "resnet_in_place"]
        plain = self.both("ddp", names, "none")
        for item in OBSERVERS if ALL else USUAL[2:3]:
            with self.subTest(observers=item):
                self.assertEqual(self.both("ddp", names, item), plain)

    def test_with_models_that_are_shared_out_by_one_rank_or_both(self):
        """A rank that asked the other one for anything would wait for ever where that one does not observe."""
        for variant in ("ddp:wrapped",) + (("fsdp2", "dtensor") if HAS_DTENSOR else ()):
            plain = self.both(variant, ["nano_gpt"], "none")
            for observers in ((["dump:mix:statistics"], ["dump:L0:tensor"]) if ALL else ()) + (["dump:mix:tensor", "none"],):
                with self.subTest(variant=variant, observers=observers):
                    self.assertEqual(self.both(variant, ["nano_gpt"], *observers), plain)

    @unittest.skipUnless(IS_TORCH_2, "torch.compile is of PyTorch 2")
    def test_compiled(self):
        names = ["nano_gpt", "vision_transformer"]
        for backend in ("eager", "aot_eager"):
            for given in ("raw", "compiled"):
                self.compare("compile:%s:%s" % (backend, given), names,
                             OBSERVERS if ALL else USUAL[1:3])

    def test_every_answer_about_every_observed_function_is_the_same(self):
        """Identity, hash, pickle, signature, source; what a tensor subclass and a dispatch mode are given; inference; models that are
        stored, sent to a spawned process and dropped."""
        def answers(configuration):
            folder = tempfile.mkdtemp(dir=self.folder)
            if configuration != "none":
                level, task, section = configuration
                configuration = os.path.join(folder, "config.json")
                with open(configuration, "w") as file:
                    json.dump({"task": task, "level": level, "dump_path": os.path.join(folder, "dump"), task: section}, file)
            run = subprocess.run([sys.executable, os.path.join(HERE, "harmless_questions.py"), configuration, NAMES], cwd=folder,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)
            self.assertEqual(run.returncode, 0, run.stderr[-3000:])
            self.assertNotIn("switched off", run.stderr)
            return [line for line in run.stdout.splitlines() if line.startswith("answer ")]

        plain = answers("none")
        self.assertGreater(len(plain), 1000)
        for configuration in QUESTIONED:
            with self.subTest(configuration):
                self.assertEqual([pair for pair in zip(answers(configuration), plain) if pair[0] != pair[1]][:3], [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
