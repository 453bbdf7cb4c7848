"""What ConfigChecker records beside a MindSpore training: the real one where it is installed, else a stand-in."""
import json
import os
import sys
import unittest
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "torch")]

from shim_case import ShimCase  # noqa: E402
from place import PLACE, REAL  # noqa: E402

PROLOGUE = """
import os, sys
sys.path[:0] = %r
from msprobe.core.config_check import ConfigChecker
ConfigChecker.apply_patches("mindspore")
import random
import numpy as np
import mindspore as ms
from mindspore import Parameter, Tensor, nn, ops

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first = nn.Dense(3, 4)
        self.second = nn.Dense(4, 2)

    def construct(self, x, *rest, **named):
        return self.second(self.first(x))

def ones(*shape):
    return Tensor(np.ones(shape, "float32"))
""" % PLACE


class ConfigCheck(ShimCase):
    def record(self, code, **options):
        run = self.run_code(code, prologue=PROLOGUE, **options)
        with zipfile.ZipFile(os.path.join(run.folder, "pack.zip")) as archive:
            self.names = archive.namelist()
            return {name: json.loads(archive.read(name).decode("ascii")) for name in self.names
                    if name.split("/")[0] in ("dataset", "weights", "random")}

    def test_inputs_and_weights_of_every_forward(self):
        found = self.record("""
            net = Net()
            other = Net()
            ConfigChecker(model=net, output_zip_path="pack.zip", fmk="mindspore")
            for step in range(2):
                net.first.weight.set_data(Tensor(np.full((4, 3), step, "float32")))
                other(ones(1, 3))
                net(ones(1, 3), [Tensor([2.5, -1.0], ms.bfloat16), "text"], mask=Tensor([1, 2]))
        """)
        self.assertEqual(found["dataset/step1/rank0/dataset.json"], {
            "args": {"0": {"max": 1.0, "min": 1.0, "mean": 1.0, "norm": 1.7320507764816284},
                     "1": {"0": {"max": 2.5, "min": -1.0, "mean": 0.75,
                                 "norm": 2.692582368850708}, "1": ""}},
            "kwargs": {"mask": {"max": 2.0, "min": 1.0, "mean": 1.5,
                                "norm": 2.2360680103302}}})
        weights = found["weights/step1/rank0/weight.json"]
        self.assertEqual(list(weights), ["first.weight", "first.bias", "second.weight",
                                         "second.bias"])
        self.assertEqual(weights["first.weight"]["max"], 1.0)
        self.assertEqual(found["weights/step0/rank0/weight.json"]["first.weight"]["max"], 0.0)
        self.assertNotIn("dataset/step2/rank0/dataset.json", found)

    def test_random_functions(self):
        found = self.record("""
            rand = ops.rand
            ms.set_seed(1)
            for _ in range(2): ops.uniform((2,), ones(1), ones(1))
            ops.normal((2,), 0, 1); ops.randint(0, 5, (2,)); random.random(); np.random.rand(1)
            assert ops.rand is rand
            net = Net()
            ConfigChecker(model=net, output_zip_path="pack.zip", fmk="mindspore")
            net(ones(1, 3))
            assert not hasattr(ops.uniform, "__wrapped__")
        """)
        calls = found["random/rank0.json"]
        if REAL:  # MindSpore draws its own seeds
            calls.pop("np.random.randint", None)
        self.assertEqual({name: [entry["count"] for entry in entries]
                          for name, entries in calls.items()},
                         {"mindspore.manual_seed": [1], "mindspore.ops.rand": [2],
                          "mindspore.ops.randn": [1], "mindspore.ops.randint": [1],
                          "random.random": [1], "np.random.rand": [1]})

    def test_calls_of_cells_are_as_before_when_it_ends(self):
        self.record("""
            from msprobe._intercept.modules import ModuleCalls
            before, calls = nn.Cell.__call__, ModuleCalls.of(nn.Cell)
            net = Net()
            checker = ConfigChecker([net], output_zip_path="pack.zip", fmk="mindspore", steps=2)
            assert calls._slot is not None
            net(ones(1, 3)); net(ones(1, 3))
            assert nn.Cell.__call__ is before and calls._slot is None
            ConfigChecker(net, output_zip_path="pack.zip", fmk="mindspore")
            ConfigChecker.restore()
            assert nn.Cell.__call__ is before and calls._slot is None
        """)

    def test_each_rank_has_its_members(self):
        found = self.record("""
            net = Net()
            ConfigChecker(net, output_zip_path="pack.zip", fmk="mindspore")
            net(ones(1, 3))
        """, environment={"RANK_ID": "3", "RANK_SIZE": "8"})
        self.assertEqual(self.names, ["dataset/step0/rank3/dataset.json",
                                      "weights/step0/rank3/weight.json"])

    def test_a_model_of_another_framework_is_refused(self):
        self.record("""
            net = Net()
            try: ConfigChecker(lambda x: x, output_zip_path="pack.zip", fmk="mindspore")
            except TypeError as error: assert "Cell" in str(error)
            else: raise AssertionError
            ConfigChecker(net, output_zip_path="pack.zip", fmk="mindspore")
            net(ones(1, 3))
        """)


if __name__ == "__main__":
    unittest.main(verbosity=1)
