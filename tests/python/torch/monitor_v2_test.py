"""TrainerMonitorV2 beyond the golden cases: what stays after stop(), and what it writes of steps outside the window."""
import csv
import os
import tempfile
import textwrap
import unittest

from script_runs import run_anew

PROLOGUE = """
import json, torch
from msprobe.core.monitor_v2 import TrainerMonitorV2
model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh())
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
def watch(**keys):
    json.dump(dict({"output_dir": "out/made"}, **keys), open("c.json", "w"))
    monitor = TrainerMonitorV2("c.json")
    monitor.start(model=model, optimizer=optimizer)
    return monitor
def train(steps):
    for _ in range(steps):
        model(torch.ones(2, 3)).sum().backward(); optimizer.step(); optimizer.zero_grad()
ALL = {name: {"enabled": True} for name in ("module", "weight_grad", "optimizer", "param")}
"""


class MonitorV2(unittest.TestCase):
    def run_code(self, code):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        with open(os.path.join(folder.name, "script.py"), "w") as file:
            file.write(PROLOGUE + textwrap.dedent(code))
        status, output = run_anew(folder.name, [], {})
        self.assertEqual(0, status, output[-3000:])
        rank = os.path.join(folder.name, "out", "made", "rank_0")
        return {name: self.rows(os.path.join(rank, name)) for name in sorted(os.listdir(rank))} if os.path.isdir(rank) else {}

    @staticmethod
    def rows(path):
        with open(path, newline="") as file:
            return list(csv.DictReader(file))

    def test_nothing_stays_after_stop(self):
        self.run_code("""
            import copy
            before = dict(vars(optimizer))
            monitor = watch(monitors=ALL)
            train(2); monitor.stop()
            assert "step" not in vars(optimizer) or vars(optimizer).get("step") is before.get("step")
            assert not model._forward_hooks and not model[0]._forward_hooks and not model._backward_hooks
            train(1)
            """)

    def test_steps_outside_the_window_write_nothing_and_are_counted(self):
        files = self.run_code("""
            monitor = watch(start_step=1, stop_step=3, monitors=ALL)
            train(4)
            assert monitor.current_step == 4
            monitor.stop()
            """)
        self.assertEqual(["%s_step%d-%d.csv" % (name, step, step) for name in ("module", "optimizer", "param", "weight_grad")
                          for step in (1, 2)], list(files))
        self.assertEqual(["0.bias", "0.weight"], sorted(
            row["module_name"] for row in files["weight_grad_step1-1.csv"] if row["scope"] == "unreduced"))

    def test_other_ranks_have_no_folder(self):
        self.assertEqual({}, self.run_code("""
            monitor = watch(rank=[3], monitors=ALL)
            train(1); monitor.step(); monitor.stop()
            """))

    def test_training_is_the_same_bit_by_bit(self):
        self.run_code("""
            import copy
            torch.manual_seed(1)
            start = copy.deepcopy(model.state_dict())
            train(3); plain = copy.deepcopy(model.state_dict())
            model.load_state_dict(start); optimizer.state.clear()
            monitor = watch(monitors=ALL); train(3); monitor.stop()
            assert all(torch.equal(plain[name], value) for name, value in model.state_dict().items())
            """)


if __name__ == "__main__":
    unittest.main()
