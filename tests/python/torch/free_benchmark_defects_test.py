"""What free_benchmark of the Python tool gets wrong, each with a test of its own."""
import os
import sys
import types
import unittest

try:
    import torch
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

import csv

from msprobe.pytorch import values
from msprobe.pytorch.free_benchmark.comparison import Comparison
from shim_case import ForkedCase


class Case(ForkedCase):
    def run_task(self, code, **section):
        return self.run_code(code, task="free_benchmark", level="L1", section=section)

    def rows(self, dump, step=0, name="free_benchmark"):
        path = dump.path("step%d" % step, "rank", name + ".csv")
        if not os.path.exists(path):
            return []
        with open(path, newline="") as file:
            return list(csv.DictReader(file))

    def names(self, dump, step=0):
        return [row["api_name"] for row in self.rows(dump, step)]


class InPlace(Case):
    def test_a_call_in_place_is_made_once_on_the_training_s_tensor(self):
        for mode, device in (("no_change", "npu"), ("add_noise", "npu"), ("to_cpu", "cpu")):
            self.run_task("""
                x = torch.tensor([1.0, 2.0])
                view, out = x[:1], torch.zeros(2)
                debugger.start()
                x.add_(10)
                x += 1
                view.mul_(2)
                torch.mul(x, 3, out=out)
                x[1] = 7
                F.relu(x, inplace=True)
                debugger.stop(); debugger.step()
                assert x.tolist() == [24.0, 7.0], x
                assert out.tolist() == [72.0, 39.0], out
                assert debugger._session._checked >= 5, debugger._session._attempts.skipped
            """, pert_mode=mode, fuzz_device=device)

    def test_updates_of_an_optimizer_are_no_false_alarms(self):
        dump = self.run_task("""
            parameters = [torch.nn.Parameter(torch.rand(8, 8)) for _ in range(3)]
            optimizer = torch.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=False)
            for step in range(3):
                for parameter in parameters: parameter.grad = torch.rand(8, 8)
                debugger.start(); optimizer.step(); debugger.stop(); debugger.step()
            assert debugger._session._checked > 10, debugger._session._checked
        """, pert_mode="add_noise")
        self.assertEqual([self.names(dump, step) for step in range(3)], [[], [], []])


class Gradients(Case):
    def test_nothing_stays_on_parameters_and_memory_does_not_grow(self):
        dump = self.run_task("""
            import gc
            weight = torch.nn.Parameter(torch.tensor([[1.0, 2.0], [3.0, 5.0]]))
            counts = []
            for step in range(6):
                debugger.start()
                torch.exp(weight).sum().backward()
                debugger.stop(); debugger.step()
                weight.grad = None
                gc.collect()
                counts.append(sum(isinstance(item, torch.Tensor) for item in gc.get_objects()))
                assert not weight._backward_hooks
            assert counts[2] == counts[5], counts
        """, pert_mode="change_value", fuzz_stage="backward", list=["exp"])
        for step in range(6):
            self.assertEqual([(row["api_name"], row["step"]) for row in self.rows(dump, step)],
                             [("Torch.exp.0.backward", str(step))])

    def test_a_gradient_that_comes_in_a_later_step_gives_no_row_of_that_step(self):
        dump = self.run_task("""
            x = torch.tensor([1.0, 3.0], requires_grad=True)
            debugger.start(); y = torch.exp(x); debugger.stop(); debugger.step()
            debugger.start(); y.sum().backward(); debugger.stop(); debugger.step()
        """, pert_mode="change_value", fuzz_stage="backward", list=["exp"])
        self.assertEqual((self.names(dump), self.names(dump, 1)), ([], []))


class NotFinite(Case):
    def test_the_training_keeps_its_nan_and_infinities(self):
        self.run_task("""
            debugger.start()
            y = torch.log(torch.tensor([-1.0, 0.0, 1.0]))
            debugger.stop(); debugger.step()
            assert y[0].isnan() and y[1] == -float("inf") and y[2] == 0, y
        """, pert_mode="to_cpu", fuzz_device="cpu")


class Noise(Case):
    CODE = """
        debugger.start()
        torch.sub(torch.tensor([1024.0, 2.0]), torch.tensor([1024.0 - 2.0 ** -10, 1.0]))
        debugger.stop(); debugger.step()
    """

    def test_noise_that_rounding_takes_away_can_be_given_in_units_of_the_last_place(self):
        self.assertEqual(self.names(self.run_task(self.CODE, pert_mode="add_noise")), [])
        dump = self.run_task(self.CODE, pert_mode="add_noise", noise_ulps=4)
        self.assertEqual(self.names(dump), ["Torch.sub.0.forward"])

    def test_all_inputs_can_be_changed_instead_of_the_first(self):
        code = """
            debugger.start()
            torch.mul(torch.tensor([0.0, 0.0]), torch.tensor([0.0, 0.0]))
            torch.add(torch.tensor([0, 1]), torch.tensor([1.0, 3.0]))
            torch.where(torch.tensor([True, False]), torch.tensor([2.0, 2.0]), torch.tensor([1.0, 9.0]))
            debugger.stop(); debugger.step()
        """
        self.assertEqual(self.names(self.run_task(code, pert_mode="change_value")), ["Torch.add.0.forward"])
        dump = self.run_task(code, pert_mode="change_value", all_inputs=True)
        self.assertEqual(self.names(dump), ["Torch.add.0.forward", "Torch.where.0.forward"])


class Cost(Case):
    def test_calls_that_are_not_selected_cost_no_second_run_and_no_copies(self):
        self.run_task("""
            from msprobe.pytorch.free_benchmark import session
            looked_at = []
            original = session.Call
            def counting(settings, function, *rest):
                looked_at.append(function)
                return original(settings, function, *rest)
            session.Call = counting
            debugger.start()
            x = torch.rand(4)
            for _ in range(10): x = torch.exp(x) * 0.1
            torch.softmax(x, 0)
            debugger.stop(); debugger.step()
            assert looked_at == ["Torch.softmax"], looked_at
        """, pert_mode="add_noise", list=["softmax"])


class Random(Case):
    def test_random_calls_have_the_same_numbers_again_and_leave_the_state(self):
        dump = self.run_task("""
            def numbers():
                torch.manual_seed(5)
                x = F.dropout(torch.ones(64), 0.5)
                x.uniform_()
                return [x, torch.bernoulli(torch.full((9,), 0.5)), torch.rand(3)]
            expected = numbers()
            debugger.start(); got = numbers(); debugger.stop(); debugger.step()
            assert all(map(torch.equal, expected, got))
            assert debugger._session._checked >= 3
        """, pert_mode="no_change")
        self.assertEqual(self.names(dump), [])


FRAGILE = """
        import types, weakref
        seen = []
        def fragile(x):
            seen.append(weakref.ref(x))
            if len(seen) == 2: raise RuntimeError(%r)
            return x / 3
        place = types.SimpleNamespace(fragile=fragile)
        debugger.register_custom_api(place, "fragile", "Mine")
        debugger.start()
        x = torch.rand(1000)
        assert torch.equal(place.fragile(x), x / 3)
        assert seen[1]() is None, "the input of the second run is still held"
        assert torch.equal(place.fragile(x), x / 3)
        torch.exp(torch.tensor([0.5, 9.0]))
        debugger.stop(); debugger.step()
        assert len(seen) == 4, seen
        assert debugger._session._checked == 2, debugger._session._checked
        print(debugger._session._attempts.skipped)
"""


class Failures(Case):
    def test_a_call_behind_one_whose_second_run_failed_is_checked(self):
        dump = self.run_task(FRAGILE % "no", pert_mode="change_value", list=["Mine", "Torch.exp"])
        self.assertIn("{'the second run failed': 1}", dump.output)
        self.assertIn("Mine.fragile.0 is not checked: RuntimeError: no", dump.output)
        self.assertEqual(self.names(dump), ["Mine.fragile.1.forward", "Torch.exp.0.forward"])

    def test_memory_that_runs_out_in_the_second_run_is_given_back_and_the_call_left_out(self):
        dump = self.run_task(FRAGILE % "CUDA out of memory. Tried to allocate 2 GiB",
                             pert_mode="change_value", list=["Mine", "Torch.exp"])
        self.assertIn("{'memory ran out': 1}", dump.output)
        self.assertEqual(self.names(dump), ["Mine.fragile.1.forward", "Torch.exp.0.forward"])

    def test_the_training_s_own_errors_are_its_own(self):
        dump = self.run_task("""
            debugger.start()
            try:
                torch.matmul(torch.rand(2, 3), torch.rand(2, 3))
                raise SystemExit("no error")
            except RuntimeError as error:
                assert "shapes cannot be multiplied" in str(error), error
            torch.exp(torch.tensor([0.5, 9.0]))
            debugger.stop(); debugger.step()
        """, pert_mode="change_value")
        self.assertEqual(self.names(dump), ["Torch.exp.0.forward"])


class Gradients(Case):
    def test_of_a_call_under_autocast_are_computed_under_it_once_more_and_without_it_in_higher_precision(self):
        dump = self.run_task("""
            debugger.start()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                first, second = nn.Linear(8, 8), nn.Linear(8, 8)
                y = second(first(torch.rand(4, 8)))  # a half and weights in float32
            y.float().sum().backward()
            debugger.stop(); debugger.step()
            debugger._session.close()
            assert debugger._session._checked == 1, debugger._session._checked
            assert "the second run failed" not in debugger._session._attempts.skipped
        """, pert_mode="improve_precision", fuzz_stage="backward", list=["linear.1"])
        self.assertNotIn("is not checked", dump.output)

    def test_what_is_made_of_nothing_has_none(self):
        dump = self.run_task("""
            debugger.start()
            x = torch.full((3,), 2.0, requires_grad=True)
            (x * torch.cat([x[:1], x[1:]])).sum().backward()
            debugger.stop(); debugger.step()
        """, pert_mode="no_change", fuzz_stage="backward", list=["full", "cat"])
        self.assertNotIn("is not checked", dump.output)


class Elements(unittest.TestCase):
    def test_an_element_that_cannot_be_compared_does_not_hide_those_behind_it(self):
        values.configure()
        comparison = Comparison(types.SimpleNamespace(stage="forward", compat=False, mode="add_noise"))
        verdicts = comparison.by_ratio((torch.ones(2), "text", torch.ones(2)),
                                       (torch.ones(3), "text", torch.full((2,), 2.0)))
        self.assertEqual([(verdict.index, verdict.consistent) for verdict in verdicts],
                         [(0, True), (1, True), (2, False)])


if __name__ == "__main__":
    unittest.main()
