"""msprobe recheck on trainings of other people's shapes: nothing of a sound CPU is called wrong, and a wrong operator in them is."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy  # noqa: F401  pylint: disable=unused-import
    import torch
except ImportError:
    print("PyTorch and NumPy are not installed: skipped")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from recheck_trainings import CASES, largest_difference  # noqa: E402  pylint: disable=wrong-import-position
from script_runs import run_forked  # noqa: E402  pylint: disable=wrong-import-position

MSPROBE = os.environ["MSPROBE"]
# PyTorch 2 imports its compiler with the first optimizer, which takes as long as all else: the copies of this process have it then.
torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
LOOSE = {"mixed_precision": 1e-2, "recurrent_and_attention": 1e-3}


class Trainings(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="msprobe_trainings_")
        self.addCleanup(shutil.rmtree, self.folder, True)

    def answer(self, name, level, fault=None):
        """The verdict, and {call: ratio} of what is called wrong."""
        shutil.rmtree(os.path.join(self.folder, "d"), ignore_errors=True)
        with open(os.path.join(self.folder, "script.py"), "w") as file:
            file.write("import sys\nsys.path.insert(0, %r)\nimport torch\ntorch.set_num_threads(1)\nimport recheck_trainings as t\n%st.captured(%r, %r, 'd')\n"
                       % (HERE, "library = t.plant(%r)\n" % fault if fault else "", name, level))
        status, output = run_forked(self.folder, [], {})
        self.assertEqual(status, 0, output)
        done = subprocess.run([MSPROBE, "recheck", os.path.join(self.folder, "d"), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        answer = json.loads(done.stdout.decode())
        return answer["verdict"], json.dumps(answer["sections"])

    def test_correct_trainings_are_within_bounds(self):
        for name in CASES:
            for level in ("L0", "mix"):
                with self.subTest(training=name, level=level):
                    verdict, _ = self.answer(name, level)
                    self.assertIn(verdict["word"], ("WITHIN BOUNDS", "NOTHING CHECKED"), verdict["text"])
                    self.assertTrue(verdict["word"] == "WITHIN BOUNDS" or level == "L0", verdict["text"])

    def test_a_wrong_operator_in_them_is_named(self):
        for name, level, fault, call in (
                ("tied", "mix", "tanh", "Torch.tanh.0.forward"), ("tied", "L0", "mm", "Module.mid.Linear.backward.0"),
                ("penalty", "mix", "tanh", "Torch.tanh.0.forward"), ("gan", "L0", "tanh", "Module.1.1.Tanh.forward.0"),
                ("grad_hook", "mix", "tanh_backward", "Torch.tanh.0.backward"), ("grad_hook", "L0", "mm", "Module.2.Linear.backward.0"),
                ("forward_hook", "mix", "tanh", "Torch.tanh.0.forward"), ("hook_on_output", "L0", "tanh_backward", "Module.1.Tanh.backward.0"),
                ("looking_hook", "L0", "tanh", "Module.1.Tanh.forward.0"), ("tensor_hook", "L0", "mm", "Module.2.Linear.backward.0"),
                ("adapters", "mix", "tanh", "Torch.tanh.0.forward"), ("frozen", "L0", "mm", "Module.0.Linear.backward.0"),
                ("accumulation", "mix", "tanh", "Torch.tanh.2.forward"), ("checkpoint", "mix", "tanh", "Torch.tanh.0.forward"),
                ("clipping", "L0", "mm", "Module.0.Linear.backward.0"), ("in_place", "L0", "mm", "Module.0.Linear.backward.0")):
            with self.subTest(training=name, level=level, fault=fault):
                verdict, sections = self.answer(name, level, fault)
                self.assertEqual(verdict["word"], "WRONG", verdict["text"])
                self.assertIn(call, sections)

    def test_gradients_of_a_subclass_are_those_of_the_function(self):
        for name in ("subclass", "logged_subclass"):
            self.answer(name, "mix")
            tensors = os.path.join(self.folder, "d", "step0", "rank", "dump_tensor_data")
            negative = 0
            for call in ("Functional.relu.0", "Functional.relu.1"):
                given = torch.load(os.path.join(tensors, call + ".forward.input.0.pt"))
                [gradient] = [torch.load(os.path.join(tensors, file)) for file in os.listdir(tensors) if file.startswith(call + ".backward.output")]
                negative += int((given < 0).sum())
                self.assertEqual(int(gradient[given < 0].count_nonzero()), 0)
            self.assertGreater(negative, 0)

    def test_they_are_correct(self):
        for name in CASES:
            with self.subTest(training=name):
                self.assertLess(largest_difference(name), LOOSE.get(name, 1e-5))


if __name__ == "__main__":
    unittest.main()
