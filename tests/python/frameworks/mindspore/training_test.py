"""Trainings with MindSpore in dynamic-graph mode."""
import os
import shutil
import sys
import unittest

import numpy

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import harness  # noqa: E402


class MindSporeCase(harness.TrainingCase):
    framework = "mindspore"
    imports = ("mindspore_training",)
    # `monitor run` knows PyTorch alone.
    observers = harness.API + ["launch dump:L0:tensor", "launch dump:mix:statistics"]
    usual = ["dump:mix:tensor", "dump:L0:statistics:md5", "dump:L1:statistics monitor", "launch dump:mix:statistics"]

    def _fork(self, folder, environment):
        # MindSpore has threads of its own as soon as it is imported: it cannot be forked.
        shutil.copy(self._path(), os.path.join(folder, "script.py"))
        return self._run([sys.executable, "script.py"] + list(self.arguments), folder, environment)

    def _launch(self, observer, folder, environment):
        _, level, task = observer.split(":")
        command = [harness.MSPROBE, "-f", "mindspore", "dump", "--dump_path", os.path.join(folder, "dump"), "--level", level,
                   "--task", task, "--", sys.executable, self._path()]
        return self._run(command + list(self.arguments), folder, environment)

    def check_files(self, folder, described):
        import mindspore_training
        looked_at = 0
        for name, tensor in described.items():
            if tensor.get("data_name"):
                array = numpy.load(os.path.join(folder, "dump_tensor_data", tensor["data_name"]))
                _, *numbers = mindspore_training.statistics(array)
                self.assert_statistics(name, tensor, numbers)
                looked_at += 1
        self.assertGreater(looked_at, 3)


class Transformer(MindSporeCase):
    subject = "transformer, PyNative"
    script = "transformer.py"
    fault = "blocks.1.mlp.0"
    timeout = 1200

    def test_all(self):
        self.check_everything()


class Bfloat16(Transformer):
    subject = "transformer, bfloat16 between blocks"
    arguments = ("bfloat16",)
    fault = "narrow.store"
    usual = ["dump:mix:statistics:md5", "dump:L0:tensor", "dump:L1:statistics monitor"]


class Jit(Transformer):
    subject = "transformer, its loss compiled by jit"
    arguments = ("jit",)
    usual = ["dump:mix:tensor", "dump:L0:statistics monitor"]


class Recompute(Transformer):
    subject = "transformer, recompute"
    arguments = ("recompute",)
    usual = ["dump:mix:tensor", "dump:L0:statistics monitor"]


if __name__ == "__main__":
    unittest.main(verbosity=2)
