"""Noise floors: what `repeat` records, and that a repeated training goes its way bit by bit."""
import sys

try:
    import torch
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

import unittest

from free_benchmark_test import TRAINING
from shim_case import ForkedCase


class Case(ForkedCase):
    def floors(self, dump, step=0):
        return {name: entry["noise_floor"] for name, entry in dump.data(step).items()
                if "noise_floor" in entry}


class NothingChanges(Case):
    def check(self, **keys):
        dump = self.run_code(TRAINING + """
expected = train(3)
got = train(3, debugger)
assert len(expected) == len(got)
for index, (left, right) in enumerate(zip(expected, got)):
    assert torch.equal(left, right), index
""", level="L1", repeat=3, **keys)
        self.assertNotIn("has no noise floor", dump.output)
        self.assertEqual(dump.errors(), "")
        return self.floors(dump, 2)

    def test_of_gradients_parameters_and_random_numbers(self):
        floors = self.check()
        for name in ("Functional.conv2d.0.forward", "Functional.batch_norm.0.backward",
                     "Functional.linear.0.backward",
                     "Functional.dropout.0.forward", "Functional.relu_.0.forward"):
            self.assertIn(name, floors)

    def test_nor_with_tensors_saved_and_gradients_of_inputs(self):
        self.assertIn("Functional.linear.0.backward", self.check(task="tensor", api_backward="inputs"))

    def test_nor_with_checksums(self):
        code = TRAINING.replace("torch.empty(y.shape)", "torch.zeros(y.shape)") + "train(1, debugger)"
        dump = self.run_code(code, level="L1", repeat=3, section={"summary_mode": "md5"})
        plain = self.run_code(code, level="L1", section={"summary_mode": "md5"})
        repeated = dump.data()
        for entry in repeated.values():
            entry.pop("noise_floor", None)
        self.assertEqual(repeated, plain.data())


class Floors(Case):
    def digits(self, code, repeat=8):
        dump = self.run_code("debugger.start()\n" + code + "\ndebugger.stop(); debugger.step()",
                             level="L1", repeat=repeat)
        for name, floor in self.floors(dump).items():
            for path in floor["output"]:  # the place of a tensor
                value = dump.data()[name]["output"]
                for key in path.split("."):
                    value = value[int(key) if isinstance(value, list) else key]
                self.assertEqual(value["type"], "torch.Tensor", (name, path))
        return {(name, path): output["digits"] for name, floor in self.floors(dump).items()
                for path, output in floor["output"].items()}

    def test_cancellation_leaves_few_digits_forward_and_backward(self):
        found = self.digits("""
x = torch.linspace(1, 2, 100, requires_grad=True)
y = torch.linspace(1, 2, 100) + 1e-4
torch.sub(x, y)
torch.tan(x * 0.78).sum().backward()
""")
        self.assertAlmostEqual(found["Torch.sub.0.forward", "0"], 3, delta=1)
        self.assertGreater(found["Tensor.__mul__.0.forward", "0"], 6)
        self.assertAlmostEqual(found["Torch.tan.0.forward", "0"], 4.5, delta=1)
        self.assertLess(found["Torch.tan.0.backward", "0"], found["Torch.tan.0.forward", "0"])

    def test_a_backward_is_repeated_with_the_autocast_of_its_forward(self):
        found = self.digits("""
layer = nn.Linear(32, 32)
with torch.autocast("cpu", dtype=torch.bfloat16):
    y = layer(torch.rand(8, 32, requires_grad=True))
y.float().sum().backward()
""")
        for name in ("Functional.linear.0.forward", "Functional.linear.0.backward"):
            digits = [value for (call, _), value in found.items() if call == name]
            self.assertTrue(digits, found)
            self.assertLess(max(digits), 2.5)  # those of bfloat16: seven bits and the hidden one

    def test_outputs_are_named_as_rows_are(self):
        found = self.digits("""
x = torch.rand(4, 6)
torch.chunk(x, 2)
torch.max(x, 1)
torch.mul(x, 2)
""")
        self.assertEqual(set(found), {
            ("Torch.chunk.0.forward", "0"), ("Torch.chunk.0.forward", "1"),
            ("Torch.max.0.forward", "0"), ("Torch.mul.0.forward", "0")})

    def test_the_same_run_gives_the_same_floors(self):
        code = "x = torch.rand(50, 50); torch.softmax(x @ x, -1)"
        self.assertEqual(self.digits(code), self.digits(code))

    def test_a_sum_has_the_noise_of_its_order(self):
        """Small whole numbers add up exactly in any order, and rounding by lot is all there is; large
        ones do not."""
        found = self.digits("""
x = torch.full((1, 10000), 1.0); x[0, ::2] = -1; x[0, 0] = 1e7
torch.sum(x, 1)
x[0, 1] = -1e7
torch.sum(x, 1)
""")
        self.assertLess(found["Torch.sum.1.forward", "0"], 2)
        self.assertGreater(found["Torch.sum.0.forward", "0"], 5)

    def test_random_and_uninitialised_calls_are_no_noise(self):
        found = self.digits("""
x = torch.rand(100)
F.dropout(x, 0.5)
torch.empty_like(x)
torch.bernoulli(x)
""")
        self.assertGreater(found["Functional.dropout.0.forward", "0"], 6)
        self.assertNotIn(("Torch.empty_like.0.forward", "0"), found)

    def test_only_what_is_recorded_has_floors(self):
        code = """
debugger.start()
x = torch.rand(3, 4, requires_grad=True)
F.softmax(x * 2, -1).sum().backward()
debugger.stop(); debugger.step()
"""
        for mode, expected in ((["forward"], ["Functional.softmax.0.forward"]), (["input"], []),
                               (["all"], ["Functional.softmax.0.backward", "Functional.softmax.0.forward"])):
            dump = self.run_code(code, level="L1", repeat=3, section={"list": ["softmax"], "data_mode": mode})
            self.assertEqual(sorted(self.floors(dump)), expected, mode)
            for entry in dump.data().values():
                self.assertNotEqual(set(entry), {"noise_floor"})

    def test_what_fails_again_is_told_and_the_call_stands(self):
        dump = self.run_code("""
count = [0]
def once(x):
    count[0] += 1
    if count[0] > 1: raise RuntimeError("only once")
    return x + 1
torch.special_once = once
debugger.start()
from msprobe import _native
api = _native.Api(once, "Torch", "special_once")
assert torch.equal(api(torch.ones(2)), torch.full((2,), 2.0))
debugger.stop(); debugger.step()
""", level="L1", repeat=3)
        self.assertIn("Torch.special_once.0 has no noise floor: RuntimeError: only once", dump.output)
        self.assertIn("Torch.special_once.0.forward", dump.names())


class OnDevices(unittest.TestCase):
    def test_tensors_of_a_device_are_rounded_where_they_lie_by_the_same_rule(self):
        from msprobe.pytorch.repeat.rounding import _on_device
        for dtype, bits in ((torch.float32, torch.int32), (torch.bfloat16, torch.int16)):
            values = torch.full((40000,), -1.5, dtype=dtype)
            values[0], values[1], values[2], values[3] = 0, float("inf"), float("nan"), torch.finfo(dtype).max
            state = torch.get_rng_state()
            moved = _on_device(values, 5)
            self.assertTrue(torch.equal(torch.get_rng_state(), state))
            units = moved.view(bits)[4:].int() - values.view(bits)[4:].int()
            self.assertEqual(sorted(set(units.tolist())), [-1, 0, 1])
            for unit, share in ((-1, 0.25), (0, 0.5), (1, 0.25)):
                self.assertAlmostEqual((units == unit).float().mean().item(), share, delta=0.02)
            self.assertTrue(torch.equal(moved.view(bits)[:4], values.view(bits)[:4]))
            self.assertTrue(torch.equal(_on_device(values, 5).view(bits), moved.view(bits)))


class Orders(unittest.TestCase):
    """Permuted arguments give the same results but for rounding."""

    def check(self, function, call, *args, **kwargs):
        from msprobe.pytorch.repeat.orders import order_of
        changed = order_of(function)(args, kwargs, 5)
        self.assertIsNotNone(changed, function)
        permuted, named, undo = changed
        self.assertFalse(all(torch.equal(a, b) for a, b in zip(args, permuted)
                             if isinstance(a, torch.Tensor)), function)
        result = call(*permuted, **named)
        torch.testing.assert_close(undo(result) if undo else result, call(*args, **kwargs))

    def test_all(self):
        import torch.nn.functional as F
        torch.manual_seed(1)
        x, y, square = torch.rand(3, 8), torch.rand(5, 8), torch.rand(8, 8)
        self.check("Functional.linear", F.linear, x, y, torch.rand(5))
        self.check("Torch.matmul", torch.matmul, x, square)
        self.check("Tensor.__matmul__", torch.matmul, torch.rand(2, 3, 8), square)
        self.check("Torch.mv", torch.mv, square, torch.rand(8))
        self.check("Torch.bmm", torch.bmm, torch.rand(2, 3, 8), torch.rand(2, 8, 4))
        self.check("Torch.addmm", torch.addmm, torch.rand(8), x, square)
        self.check("Functional.conv2d", F.conv2d, torch.rand(1, 6, 5, 5), torch.rand(2, 6, 3, 3))
        self.check("Functional.conv1d", F.conv1d, torch.rand(6, 5), torch.rand(2, 6, 3))
        for name in ("sum", "mean", "std", "var", "logsumexp"):
            self.check("Torch." + name, getattr(torch, name), square, -1)
        self.check("Torch.sum", torch.sum, square)
        self.check("Torch.mean", torch.mean, square, dim=(0, 1), keepdim=True)
        self.check("Torch.softmax", torch.softmax, square, 0)
        self.check("Functional.log_softmax", F.log_softmax, square, dim=-1)
        self.check("Functional.layer_norm", F.layer_norm, square, (8,), torch.rand(8), torch.rand(8))

    def test_what_is_not_known_is_left_alone(self):
        from msprobe.pytorch.repeat.orders import order_of
        self.assertIsNone(order_of("Torch.exp"))
        grouped = (torch.rand(1, 6, 5, 5), torch.rand(6, 1, 3, 3), None, 1, 0, 1, 6)
        self.assertIsNone(order_of("Functional.conv2d")(grouped, {}, 5))


if __name__ == "__main__":
    unittest.main()
