"""free_benchmark: what it finds, and that a checked training goes its way bit by bit."""
import csv
import os
import sys
import unittest

try:
    import torch
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

from shim_case import ForkedCase

MODES = ("add_noise", "change_value", "improve_precision", "no_change", "bit_noise", "to_cpu")

# In-place calls, views, out=, random numbers, running statistics, a tensor used twice.
TRAINING = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.linear = nn.Linear(64, 8)

    def forward(self, x):
        x = F.relu_(self.norm(self.convolution(x)))
        x = F.dropout(x, 0.5, self.training).flatten(1)
        x = self.linear(x[:, :64])
        y = x.view(-1, 4).softmax(-1) * x.reshape(-1, 4)
        buffer = torch.empty(y.shape)
        torch.mul(y.detach(), 2, out=buffer)
        buffer[0].add_(1).clamp_(min=0)
        return (y + buffer).sum() + y.masked_fill(y > 1, 0).sum() + torch.rand(1).sum()

def train(steps, debugger=None):
    torch.manual_seed(3)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    seen = []
    for step in range(steps):
        if debugger: debugger.start()
        optimizer.zero_grad()
        loss = net(torch.rand(2, 1, 4, 4))
        loss.backward()
        seen += [loss.detach().clone()] + [p.grad.clone() for p in net.parameters()]
        optimizer.step()
        if debugger: debugger.stop(); debugger.step()
    return seen + [v.clone() for v in net.state_dict().values()] + [torch.get_rng_state()]
"""


class Case(ForkedCase):
    def run_task(self, code, ends_well=True, **section):
        dump = self.run_code(code, task="free_benchmark", level="L1", section=section,
                             ends_well=ends_well)
        return dump

    def rows(self, dump, step=0, name="free_benchmark"):
        path = dump.path("step%d" % step, "rank", name + ".csv")
        if not os.path.exists(path):
            return []
        with open(path, newline="") as file:
            return list(csv.DictReader(file))


class NothingChanges(Case):
    def check(self, **section):
        dump = self.run_task(TRAINING + """
expected = train(3)
got = train(3, debugger)
assert len(expected) == len(got)
for index, (left, right) in enumerate(zip(expected, got)):
    assert torch.equal(left, right), index
debugger._session.close()
assert debugger._session._checked > 10, debugger._session._attempts.skipped
""", **section)
        self.assertNotIn("is not checked", dump.output)
        return dump

    def test_forward(self):
        for mode in MODES:
            with self.subTest(mode=mode):
                self.check(pert_mode=mode, fuzz_device="cpu" if mode == "to_cpu" else "npu",
                           list=[]) if mode != "improve_precision" else None

    def test_backward(self):
        for mode in ("add_noise", "no_change", "to_cpu"):
            with self.subTest(mode=mode):
                self.check(pert_mode=mode, fuzz_stage="backward",
                           fuzz_device="cpu" if mode == "to_cpu" else "npu")

    def test_preheating(self):
        self.check(pert_mode="bit_noise", if_preheat=True, preheat_step=2)

    def test_the_same_inputs_give_no_row_even_in_place_or_random(self):
        for stage in ("forward", "backward"):
            dump = self.check(pert_mode="no_change", fuzz_stage=stage)
            self.assertEqual([self.rows(dump, step) for step in range(3)], [[], [], []], stage)


class Findings(Case):
    UNSTABLE = """
debugger.start()
x = torch.full((4,), 1.0, requires_grad=True)
y = torch.sub(x, torch.full((4,), 1.0 - 2 ** -22))
(y * 2).sum().backward()
torch.sin(torch.ones(3))
debugger.stop(); debugger.step()
"""

    def test_cancellation_is_found_and_a_stable_call_is_not(self):
        dump = self.run_task(self.UNSTABLE, pert_mode="bit_noise", list=["Torch."])
        rows = self.rows(dump)
        self.assertEqual([row["api_name"] for row in rows], [])
        dump = self.run_task("""
            debugger.start()
            torch.mul(torch.tensor([1.0]), 0.5)
            torch.tan(torch.tensor([1.5707963]))
            debugger.stop(); debugger.step()
        """, pert_mode="bit_noise")
        self.assertEqual([row["api_name"] for row in self.rows(dump)], ["Torch.tan.0.forward"])

    def test_the_bytes_of_a_row(self):
        dump = self.run_task("""
            debugger.start()
            torch.exp(torch.tensor([[0.5, 1.0, 20.0]]))
            debugger.stop(); debugger.step()
        """, pert_mode="change_value", scope=["Torch.exp.0.forward"])
        with open(dump.path("step0", "rank", "free_benchmark.csv"), "rb") as file:
            lines = file.read().split(b"\r\n")
        self.assertEqual(lines[0], b"rank,pert_mode,stage,step,api_name,max_rel,dtype,shape,output_index")
        self.assertTrue(lines[1].startswith(b"0,change_value,forward,0,Torch.exp.0.forward,"), lines)
        self.assertTrue(lines[1].endswith(b',torch.float32,"torch.Size([1, 3])",'), lines)
        self.assertEqual(os.stat(dump.path("step0", "rank", "free_benchmark.csv")).st_mode & 0o777, 0o640)
        [details] = self.rows(dump, name="free_benchmark_details")
        self.assertEqual(details["exceeding"], "2")

    def test_gradients(self):
        dump = self.run_task("""
            for step in range(3):
                debugger.start()
                x = torch.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
                (torch.exp(x) * x).sum().backward()
                debugger.stop(); debugger.step()
        """, pert_mode="change_value", fuzz_stage="backward", list=["exp"])
        for step in range(3):  # of this step only: no hook is left from the one before
            rows = self.rows(dump, step)
            self.assertEqual([(row["api_name"], row["step"]) for row in rows],
                             [("Torch.exp.0.backward", str(step))])

    def test_gradients_of_what_updates_running_statistics(self):
        dump = self.run_task("""
            for step in range(2):
                debugger.start()
                norm = nn.BatchNorm1d(4)
                embedding = nn.Embedding(9, 4)
                x = embedding(torch.tensor([[1, 2], [3, 4], [5, 6]])).flatten(0, 1)
                (norm(x) ** 2 * torch.rand(6, 4)).sum().backward()
                assert int(norm.num_batches_tracked) == 1
                debugger.stop(); debugger.step()
            debugger._session.close()
            assert debugger._session._checked == 4, debugger._session._checked
            assert not debugger._session._attempts.skipped, debugger._session._attempts.skipped
        """, pert_mode="change_value", fuzz_stage="backward", list=["batch_norm", "embedding"])
        self.assertIn("Functional.batch_norm.0.backward",
                      [row["api_name"] for row in self.rows(dump, 1)])
        self.run_task("""
            debugger.start()
            weight = torch.full((3, 4), 2.0, requires_grad=True)
            F.embedding(torch.tensor([1, 2]), weight, max_norm=1.0).sum().backward()
            debugger.stop(); debugger.step()
            debugger._session.close()
            assert debugger._session._checked == 0
        """, pert_mode="change_value", fuzz_stage="backward", list=["embedding"])

    def test_a_nan_of_the_second_run_alone_is_a_row_unless_compat(self):
        code = """
            debugger.start()
            torch.neg(torch.tensor([float("nan"), 1.0]))
            debugger.stop(); debugger.step()
        """
        self.assertEqual([row["max_rel"] for row in
                          self.rows(self.run_task(code, pert_mode="change_value"))], ["nan_or_inf"])
        self.assertEqual(self.rows(self.run_task(code, pert_mode="change_value", compat=True)), [])

    def test_nested_calls_are_not_looked_at(self):
        dump = self.run_task("""
            debugger.start()
            F.softmin(torch.rand(3, 3), -1)
            debugger.stop(); debugger.step()
            debugger._session.close()
            assert debugger._session._checked == 1, debugger._session._checked
        """, pert_mode="no_change", list=["soft"])
        self.assertEqual(dump.steps(), [])

    def test_sampling(self):
        self.run_task("""
            debugger.start()
            x = torch.rand(3)
            for _ in range(20): torch.abs(x)
            debugger.stop(); debugger.step()
            assert debugger._session._checked == 3, debugger._session._checked
        """, pert_mode="no_change", list=["Torch.abs"], every_n_calls=4, max_calls_per_api=3)


class Large(Case):
    def test_tensors_that_are_read_without_the_interpreter_s_lock(self):
        """Both are described before it is let go."""
        dump = self.run_task("""
            x, y = torch.rand(2000, 2000), torch.rand(2000, 2000)
            debugger.start()
            torch.mul(x, y)
            torch.exp(x)
            (x.requires_grad_() * y).sum().backward()
            debugger.stop(); debugger.step()
            assert debugger._session._checked >= 3, debugger._session._checked
        """, pert_mode="change_value", list=["mul", "exp"])
        self.assertIn("Torch.exp.0.forward", [row["api_name"] for row in self.rows(dump)])


class Fix(Case):
    def test_the_second_result_takes_the_place_of_the_first(self):
        self.run_task("""
            a = torch.rand(16, 16).to(torch.bfloat16)
            expected = torch.softmax(a.float(), -1).to(torch.bfloat16)
            debugger.start()
            got = torch.softmax(a, -1)
            debugger.stop()
            assert torch.equal(got, expected) and got.dtype == torch.bfloat16
        """, pert_mode="improve_precision", handler_type="fix", list=["softmax"])


class Failures(Case):
    def test_a_second_run_that_raises_leaves_the_result(self):
        dump = self.run_task("""
            calls = []
            def fragile(x):
                calls.append(1)
                if len(calls) % 2 == 0: raise RuntimeError("out of memory" if len(calls) == 4 else "no")
                return x + 1
            import types
            place = types.SimpleNamespace(fragile=fragile)
            debugger.register_custom_api(place, "fragile", "Mine")
            debugger.start()
            assert place.fragile(torch.ones(1)).item() == 2
            assert place.fragile(torch.ones(1)).item() == 2
            debugger.stop(); debugger.step()
            print(debugger._session._attempts.skipped)
        """, pert_mode="no_change", list=["Mine"])
        self.assertIn("memory ran out", dump.output)
        self.assertIn("the second run failed", dump.output)

    def test_what_is_wrong_in_the_configuration_is_said(self):
        for section, words in (
                ({"pert_mode": "noise"}, "pert_mode"), ({"fuzz_device": "cpu"}, "to_cpu"),
                ({"scope": ["a"], "list": ["b"]}, "beside scope"),
                ({"handler_type": "fix", "pert_mode": "add_noise"}, 'handler_type": is "fix"'),
                ({"if_preheat": True, "preheat_step": 0}, "preheat_step"), ({"unknown": 1}, "unknown")):
            dump = self.run_task("", ends_well=False, **section)
            self.assertIn("ValueError", dump.output)
            self.assertIn(words, dump.output)

    def test_rows_of_an_earlier_run_stay(self):
        folder = self.folder()
        for _ in range(2):
            dump = self.run_code("""
                debugger.start(); torch.exp(torch.tensor([0.5, 9.0])); debugger.stop(); debugger.step()
            """, task="free_benchmark", level="L1", section={"pert_mode": "change_value"}, folder=folder)
        self.assertEqual(len(self.rows(dump)), len(self.rows(dump, name="free_benchmark_2")), 1)


if __name__ == "__main__":
    unittest.main()
