"""Gradients that a backward pass hands on are those that a second pass through the call gives, so that one is enough."""
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

# seen[function]: for each check, whether the gradients were handed on. Those are held against another pass through the call; what
# differs is in `wrong`.
WATCH = """
from msprobe._intercept.runtime import own_work
from msprobe.pytorch.free_benchmark.backward import Backward
seen, runs, wrong = {}, [], []
gradients, of = Backward.gradients, Backward._of

def compared(self, gradient, handed):
    name = self._call._function
    both = gradients(self, gradient, handed)
    seen.setdefault(name, []).append(both is not None and both[2] is not None)
    given = gradient.detach() if self._shape is None else gradient.detach().reshape(self._shape)
    again = of(self, self._call.args, self._call.kwargs, given, autocasts=True)
    with own_work():
        if both is not None and (len(both[0]) != sum(self._needed) or not all(map(torch.equal, both[0], again))):
            wrong.append((name, both, again))
    return both

def counted(self, *given, **named):
    runs.append(self._call._function)
    return of(self, *given, **named)

Backward.gradients, Backward._of = compared, counted

def some(*shape):
    return torch.randn(shape, requires_grad=True)

def checked(name):
    assert not wrong, wrong
    found = [flags for function, flags in seen.items() if function.rpartition(".")[2] == name]
    assert len(found) == 1, (name, sorted(seen))
    return found[0]
"""


class Case(ForkedCase):
    def run_task(self, code, **section):
        section = dict({"pert_mode": "no_change", "fuzz_stage": "backward", "list": []}, **section)
        dump = self.run_code(WATCH + code + "assert not wrong, wrong\n", task="free_benchmark", level="L1", section=section)
        self.assertNotIn("is not checked", dump.output)
        self.assertFalse(os.path.exists(dump.path("step0", "rank", "free_benchmark.csv")))
        return dump


class Alarms(ForkedCase):
    def rows(self, code, **section):
        section = dict({"pert_mode": "no_change", "fuzz_stage": "backward", "list": []}, **section)
        dump = self.run_code(code, task="free_benchmark", level="L1", section=section)
        path = dump.path("step0", "rank", "free_benchmark.csv")
        if not os.path.exists(path):
            return []
        with open(path, newline="", encoding="utf-8") as file:
            return [row["api_name"] for row in csv.DictReader(file)]

    def test_gradients_that_differ_for_another_reason_are_computed_once_more_before_they_are_called_unstable(self):
        self.assertEqual(self.rows("""
x = torch.ones(3, requires_grad=True)
debugger.start()
y = torch.tanh(x)
debugger.stop()
x.data.mul_(2)   # which no version tells
y.sum().backward()
debugger.step()
""", list=["tanh"]), [])

    def test_unstable_gradients_are_told(self):
        self.assertEqual(self.rows("""
x = torch.tensor([1.0, 2.0, 30.0], requires_grad=True)
debugger.start()
y = torch.exp(x)
debugger.stop()
y.sum().backward()
debugger.step()
""", list=["exp"], pert_mode="change_value"), ["Torch.exp.0.backward"])


class HandedOn(Case):
    # (what is called, the function, whether its part of the graph tells)
    CALLS = """
calls = [
    (lambda: F.softmax(some(3, 5), -1), "softmax", True),
    (lambda: torch.add(some(3, 1), some(3, 4)), "add", True),
    (lambda: torch.mul(some(4), some(3, 4)), "mul", True),
    (lambda: F.linear(some(3, 4), some(5, 4)), "linear", True),
    (lambda: F.linear(some(3, 4), torch.randn(5, 4)), "linear", True),
    (lambda: F.linear(some(2, 3, 4), some(5, 4), some(5)), "linear", True),
    (lambda: F.linear(some(2, 3, 4) * 2, some(5, 4), some(5)), "linear", True),
    (lambda: F.layer_norm(some(2, 3, 4), (4,), some(4), some(4)), "layer_norm", True),
    (lambda: F.conv2d(some(1, 2, 5, 5), some(3, 2, 3, 3), some(3)), "conv2d", True),
    (lambda: torch.matmul(some(2, 3, 4, 5), some(2, 3, 5, 4)), "matmul", True),
    (lambda: torch.matmul(some(2, 3, 4, 5), some(5, 4)), "matmul", True),
    (lambda: torch.baddbmm(some(2, 3, 3), some(2, 3, 4), some(2, 4, 3)), "baddbmm", True),
    (lambda: F.gelu(some(3, 4) + 1), "gelu", True),
    (lambda: F.dropout(some(30, 4), 0.5, True), "dropout", True),
    (lambda: F.batch_norm(some(6, 4), torch.zeros(4), torch.ones(4), some(4), some(4), True), "batch_norm", True),
    (lambda: F.cross_entropy(some(3, 4), torch.tensor([0, 2, 1])), "cross_entropy", False),
    (lambda: F.linear(some(3, 4), weight=some(5, 4)), "linear", True),
    (lambda: torch.cat((some(3, 4) + 1, some(3, 4))).sum() * some(1), "__mul__", True),
    (lambda: F.smooth_l1_loss(some(3, 4), some(3, 4)), "smooth_l1_loss", True),
    (lambda: torch.cumsum(some(3, 4), 1), "cumsum", True),
    (lambda: torch.var(some(3, 4), 1), "var", True),
]
"""

    def test_what_the_graph_of_a_call_hands_on_are_its_gradients(self):
        self.run_task(self.CALLS + """
for call, name, tells in calls:
    seen.clear()
    runs.clear()
    debugger.start()
    result = call()
    debugger.stop()
    result.sum().backward()
    assert checked(name) == [tells], (name, seen)
    assert sum(function.endswith(name) for function in runs) == (1 if tells else 2), (name, runs)
debugger.step()
""")

    def test_the_same_tensor_given_twice_does_not_tell_which_gradient_is_whose(self):
        self.run_task("""
x = some(3)
debugger.start()
y = torch.mul(x, x)
debugger.stop()
y.sum().backward()
assert checked("mul") == [False] and len(runs) == 2
assert torch.equal(x.grad, 2 * x.detach())
debugger.step()
""")

    def test_one_tensor_by_position_and_by_name_does_not_tell_either(self):
        self.run_task("""
x = some(3)
debugger.start()
y = torch.mul(x, other=x)
debugger.stop()
y.sum().backward()
assert checked("mul") == [False] and len(runs) == 2
debugger.step()
""")

    def test_a_weight_that_autocast_has_cast_once_for_all_calls_is_not_that_of_one(self):
        self.run_task("""
w, b, x = some(5, 4), some(5), some(3, 4)
debugger.start()
with torch.autocast("cpu", dtype=torch.bfloat16):
    one, two = F.linear(x, w, b), F.linear(x * 2, w, b)
debugger.stop()
(one.float().sum() + two.float().sum()).backward()
assert checked("linear") == [False, False]
debugger.step()
""", list=["linear"])

    def test_a_hook_that_changes_a_gradient_in_place_changes_none_that_is_compared(self):
        self.run_task("""
x, w, b = some(3, 4), some(5, 4), some(5)
for leaf in (x, w, b):
    leaf.register_hook(lambda gradient: gradient.mul_(0.5))
debugger.start()
y = F.linear(x, w, b)
debugger.stop()
y.sum().backward()
assert checked("linear") == [True]
assert torch.equal(b.grad, torch.full((5,), 1.5))
debugger.step()
""")

    @unittest.skipUnless(hasattr(torch.Tensor, "register_post_accumulate_grad_hook"), "PyTorch has register_post_accumulate_grad_hook from 2.1 on")
    def test_a_step_of_an_optimizer_within_the_pass_comes_after_it(self):
        self.run_task("""
x, w, b = some(3, 4), some(5, 4), some(5)
def step(leaf):
    leaf.data.add_(leaf.grad, alpha=-1)
for leaf in (w, b):
    leaf.register_post_accumulate_grad_hook(step)
debugger.start()
y = F.linear(x, w, b)
debugger.stop()
y.sum().backward()
assert checked("linear") == [True]
debugger.step()
""")

    def test_passes_of_several_threads_are_told_apart(self):
        self.run_task("""
import threading
x, w, b = some(3, 4), some(5, 4), some(5)
debugger.start()
y = F.linear(x, w, b)
debugger.stop()
def work(scale):
    for _ in range(20):
        torch.autograd.grad((scale * y).sum(), [x, w, b], retain_graph=True)
threads = [threading.Thread(target=work, args=(scale,)) for scale in (1.0, 3.0)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(checked("linear")) == 40 and all(checked("linear"))
debugger.step()
""", list=["linear"])

    def test_a_call_without_autocast_is_run_again_without(self):
        self.run_task("""
x, w = some(3, 4), some(5, 4)
debugger.start()
with torch.autocast("cpu", dtype=torch.bfloat16):
    with torch.autocast("cpu", enabled=False):
        y = F.linear(x, w)
    y.sum().backward()
debugger.stop()
assert checked("linear") == [True]
debugger.step()
""", list=["linear"])

    def test_an_argument_that_is_frozen_after_the_call_had_a_gradient_in_it(self):
        self.run_task("""
x, w = some(4, 4), some(4, 4)
debugger.start()
y = torch.mul(x, w)
debugger.stop()
x.requires_grad_(False)
y.sum().backward()
assert checked("mul") == [True]
debugger.step()
""", list=["mul"])

    def test_a_function_that_writes_into_its_gradient_writes_into_none_of_the_training_s(self):
        self.run_task("""
class Careless(torch.autograd.Function):
    @staticmethod
    def forward(context, x):
        return x * 2
    @staticmethod
    def backward(context, gradient):
        return gradient.mul_(2)
class Kernels:
    careless = staticmethod(lambda x: Careless.apply(x))
PrecisionDebugger.register_custom_api(Kernels, "careless", "Kernels")

def gradients_of():
    x, w = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
    ((Kernels.careless(x) + w) * torch.arange(3.0)).sum().backward()
    return x.grad, w.grad

plain = gradients_of()
debugger.start()
watched = gradients_of()
debugger.stop()
assert all(map(torch.equal, plain, watched)), (plain, watched)
assert not any(checked("careless"))
debugger.step()
""", list=["careless"])

    def test_a_leaf_that_a_call_hands_on_has_no_hook(self):
        self.run_task("""
w = some(3)
debugger.start()
y = w.to(torch.float32)
z = torch.exp(y)
debugger.stop()
z.sum().backward()
assert y is w and not w._backward_hooks
debugger.step()
""")

    def test_an_argument_that_is_written_with_the_result_goes_when_it_is_no_longer_used(self):
        self.run_task("""
import gc, weakref
x = some(3)
h = x * 1
debugger.start()
y = torch.sigmoid(h)
debugger.stop()
h += y
h.sum().backward()
kept = weakref.ref(h)
del h, y
gc.collect()
assert kept() is None
debugger.step()
""", list=["sigmoid"])

    def test_a_pass_that_asks_for_some_gradients_only_is_checked_too(self):
        self.run_task("""
x, w, b = some(3, 4), some(5, 4), some(5)
debugger.start()
y = F.linear(x, w, b)
z = torch.mul(x, 1 + x.detach())
product = torch.mul(w, w.detach() + some(5, 4))
debugger.stop()
torch.autograd.grad(y.sum(), [x])
assert checked("linear") == [False]
torch.autograd.grad(product.sum(), [w])
assert checked("mul") == [False], seen
debugger.step()
""", list=["linear", "mul.1"])

    def test_every_pass_through_a_kept_graph_is_checked(self):
        self.run_task("""
x, w, b = some(3, 4), some(5, 4), some(5)
debugger.start()
y = F.linear(x, w, b)
debugger.stop()
for scale in (1, 2, 3):
    x.grad = None
    (scale * y).sum().backward(retain_graph=True)
    assert torch.equal(x.grad, torch.full((3, 5), float(scale)).mm(w.detach()))
torch.autograd.grad(y.sum(), [x], retain_graph=True)
y.sum().backward()
assert checked("linear") == [True, True, True, False, True]
debugger.step()
""")

    def test_a_hook_of_the_user_s_that_changes_a_gradient_is_part_of_the_pass(self):
        self.run_task("""
x = some(3)
debugger.start()
y = torch.exp(x)
y.register_hook(lambda gradient: gradient * 3)
debugger.stop()
y.sum().backward()
assert checked("exp") == [True]
assert torch.equal(x.grad, 3 * y.detach())
debugger.step()
""")

    def test_graphs_and_their_tensors_go_when_they_are_no_longer_used(self):
        self.run_task("""
import gc, weakref
gc.collect()
gc.disable()
debugger.start()
x, w, b = some(3, 4), some(5, 4), some(5)
y = F.linear(x * 1, w, b)
kept = [weakref.ref(tensor) for tensor in (x, w, b, y)]
y.sum().backward()
debugger.stop()
del x, w, b, y
assert [reference() for reference in kept] == [None] * 4
debugger.step()
""")

    def test_views_and_calls_that_hand_their_argument_on_change_nothing(self):
        self.run_task("""
x = some(2, 3)
h = x * 1
debugger.start()
outs = [h.view(3, 2), torch.reshape(h, (2, 3)), h.contiguous(), h.t(), torch.dropout(h, 0.5, False)]
debugger.stop()
sum(out.sum() for out in outs).backward()
assert torch.equal(x.grad, torch.full((2, 3), 5.0))
debugger.step()
""")


if __name__ == "__main__":
    unittest.main()
