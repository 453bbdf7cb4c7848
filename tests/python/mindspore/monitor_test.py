"""The monitor of MindSpore programs: of the real one where it is installed, else of a stand-in."""
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "torch")]

from monitor_case import MonitorCase  # noqa: E402
from place import PLACE  # noqa: E402

PROLOGUE = """
import os, sys
sys.path[:0] = %r
import numpy as np
import mindspore as ms
from mindspore import Parameter, Tensor, nn
from msprobe.mindspore import TrainerMon

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first, self.act, self.second = nn.Dense(3, 4), nn.ReLU(), nn.Dense(4, 2)
    def construct(self, x):
        return self.second(self.act(self.first(x)))

class Adam(nn.SGD):
    def __init__(self, parameters):
        super().__init__(parameters, 0.1)
        self.state = Parameter(np.full((2,), 3.0, "float32"), "moment1.first.weight")
        self._params["moment1.first.weight"] = self._params.pop("state")

net = Net()
optimizer = Adam(net.trainable_params())
step = ms.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())
def train(times):
    for _ in range(times):
        optimizer(step(Tensor(np.ones((5, 3), "float32")))[1])
""" % PLACE
ALL = dict(xy_distribution=True, wg_distribution=True, mv_distribution=True, param_distribution=True,
           ops=["norm", "max"])


class TrainerMon(MonitorCase):
    def test_tables_of_a_training(self):
        written = self.run_code("""
            TrainerMon("config.json").set_monitor(net, optimizer)
            train(2)
        """, ALL, prologue=PROLOGUE)
        self.assertEqual(written.names("actv_1-1.csv"),
                         ["first.input", "first.output", "act.input", "act.output", "second.input", "second.output",
                          ".input", ".output"])
        self.assertIn("second.output", written.names("actv_grad_1-1.csv"))
        parameters = ["first.weight", "first.bias", "second.weight", "second.bias"]
        for table in ("grad_reduced", "param_origin", "param_updated"):
            self.assertEqual(written.names(table + "_1-1.csv"), parameters, table)
        rows = {row["name"]: row for row in written.rows("grad_reduced_0-0.csv")}
        self.assertEqual(rows["second.bias"]["max"], "5.0")
        self.assertEqual(rows["second.bias"]["dtype"], "Float32")
        self.assertEqual([(row["name"], row["max"]) for row in written.rows("exp_avg_1-1.csv")],
                         [("moment1.first.weight", "3.0")])
        self.assertNotEqual(written.rows("param_origin_1-1.csv"), written.rows("param_origin_0-0.csv"))

    def test_nothing_is_left_after_the_last_step(self):
        self.run_code("""
            from msprobe._intercept.modules import ModuleCalls
            before, calls = nn.Cell.__call__, ModuleCalls.of(nn.Cell)
            TrainerMon("config.json").set_monitor(net, optimizer)
            assert calls._slot is not None and "construct" in vars(optimizer)
            train(2)
            assert nn.Cell.__call__ is before and calls._slot is None and "construct" not in vars(optimizer)
        """, dict(ALL, collect_times=1), prologue=PROLOGUE)

    def test_a_missing_optimizer_is_told(self):
        written = self.run_code("""
            TrainerMon("config.json").set_monitor(net, None)
            train(1)
        """, ALL, prologue=PROLOGUE)
        self.assertIn("nothing is watched", written.said)


if __name__ == "__main__":
    unittest.main(verbosity=1)
