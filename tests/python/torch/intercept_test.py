"""Who watches a training: nothing of it changes, and the watchers do not disturb each other."""
import json
import os
import re
import subprocess
import sys
import unittest

try:
    import torch
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

from shim_case import PROLOGUE, ForkedCase

IS_TORCH_2 = int(torch.__version__.split(".")[0]) >= 2
MONITOR = """
import csv, glob, json
os.environ["MONITOR_OUTPUT_DIR"] = "monitor"
json.dump({"targets": {}, "xy_distribution": True, "wg_distribution": True, "ops": ["norm"],
           "step_interval": 1}, open("monitor.json", "w"))
from msprobe.pytorch import TrainerMon
def rows(pattern):
    return {name: list(csv.DictReader(open(name))) for name in sorted(glob.glob("monitor/*/" + pattern))}
"""


class Objects(ForkedCase):
    """Arguments and results are the objects that they are."""

    def test_a_tensor_without_memory_of_its_own_is_described_without_values(self):
        """Its address is its offset, as that of a DTensor on all ranks but the first."""
        dump = self.run_code("""
            class Wrapper(torch.Tensor):
                @staticmethod
                def __new__(cls):
                    return torch.Tensor._make_wrapper_subclass(cls, (4, 3), (3, 1), 12)
                @classmethod
                def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
                    raise RuntimeError("nothing is computed with it")
            model = nn.Sequential(nn.Identity())
            debugger.start(model=model); model(Wrapper()); debugger.stop(); debugger.step()
        """, task="tensor", level="L0")
        [described] = dump.data()["Module.0.Identity.forward.0"]["output"]
        self.assertEqual(described["shape"], [4, 3])
        self.assertIsNone(described["Norm"])

    def test_attributes_of_tensors_stay(self):
        self.run_code("""
            class Scaled(nn.Module):
                def __init__(self): super().__init__(); self.q = nn.Linear(2, 2)
                def forward(self, x, weight):
                    y = self.q(x) * x.hint @ weight
                    assert weight.main_grad is not None
                    y.loss = y.sum()
                    return y
            class Top(nn.Module):
                def __init__(self): super().__init__(); self.a = nn.Linear(2, 2); self.b = Scaled()
                def forward(self, x):
                    h = self.a(x); h.hint = 3.0
                    return self.b(h, self.a.weight)
            model = Top(); model.a.weight.main_grad = torch.zeros(2, 2)
            debugger.start(model)
            model(torch.ones(1, 2)).loss.backward()
            debugger.stop(); debugger.step()
        """)

    def test_one_tensor_given_twice_is_one(self):
        self.run_code("""
            class Same(nn.Module):
                def forward(self, x, other): assert x is other; return x * other
            class Top(nn.Module):
                def __init__(self): super().__init__(); self.a = nn.Linear(2, 2); self.same = Same()
                def forward(self, x): h = self.a(x); y = self.same(h, h); assert y.grad_fn.name()[:3] == "Mul"; return y
            model = Top()
            debugger.start(model); model(torch.ones(1, 2)).sum().backward()
            debugger.stop(); debugger.step()
        """)

    def test_sums_of_gradients_keep_their_order(self):
        code = """
            import hashlib
            class Norm(nn.Module):
                def __init__(self): super().__init__(); self.w = nn.Parameter(torch.ones(16))
                def forward(self, x): return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.w
            class Top(nn.Module):
                def __init__(self): super().__init__(); self.a = nn.Linear(16, 16); self.n = Norm(); self.b = nn.Linear(16, 16)
                def forward(self, x): h = self.a(x); return h + self.b(self.n(h))
            model = Top()
            %s
            model(torch.randn(64, 16)).square().sum().backward()
            %s
            print(hashlib.sha1(model.a.weight.grad.numpy().tobytes()).hexdigest())
        """
        plain = self.run_code(code % ("", ""))
        for level in ("L0", "mix"):
            seen = self.run_code(code % ("debugger.start(model)", "debugger.stop(); debugger.step()"),
                                 level=level)
            self.assertEqual(seen.output.splitlines()[-1], plain.output.splitlines()[-1])
            self.assertIsNotNone(seen.data()["Module.n.Norm.backward.0"]["output"][0])

    def test_the_gradient_of_an_input_is_that_of_this_call(self):
        dump = self.run_code("""
            class Twice(nn.Module):
                def forward(self, x): return x * 2 + x.pow(2)
            class Top(nn.Module):
                def __init__(self): super().__init__(); self.twice = Twice()
                def forward(self, x): h = x * 1; return self.twice(h) + h * 100
            model, x = Top(), torch.full((2,), 3.0, requires_grad=True)
            debugger.start(model); model(x).sum().backward(); debugger.stop(); debugger.step()
            assert x.grad.tolist() == [108, 108]
        """, level="L0")
        entry = dump.data()["Module.twice.Twice.backward.0"]
        self.assertEqual((entry["input"][0]["Max"], entry["output"][0]["Max"]), (1.0, 8.0))

    def test_an_argument_that_is_returned_beside_a_result(self):
        dump = self.run_code("""
            import copy, json
            class Biased(nn.Module):
                def __init__(self): super().__init__(); self.l = nn.Linear(3, 3)
                def forward(self, x, bias): return self.l(x) * bias + bias, bias
            class Around(nn.Module):
                def __init__(self): super().__init__(); self.l, self.inner = nn.Linear(3, 3), Biased()
                def forward(self, x, bias): y, bias = self.inner(self.l(x), bias); return x + y, bias
            class Pair(nn.Module):
                def __init__(self): super().__init__(); self.l = nn.Linear(3, 3)
                def forward(self, x): return self.l(x), x
            class Top(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.a, self.b, self.pair = nn.Linear(3, 3), nn.Linear(3, 3), Pair()
                    self.first, self.second, self.last = Biased(), Around(), Around()
                def forward(self, x):
                    y, h = self.pair(self.a(x))
                    h, bias = y + h, self.b(x)
                    for layer in (self.first, self.second, self.last): h, bias = layer(h, bias)
                    return h
            model, x = Top(), torch.randn(2, 3)
            truth = {}
            def norms(gradients): return [None if item is None else float(item.norm()) for item in gradients]
            other = copy.deepcopy(model)
            for name, module in other.named_modules():
                if isinstance(module, (Biased, Around, Pair)):
                    module.register_full_backward_hook(lambda module, of_inputs, of_outputs, name=name: truth.update(
                        {name: [norms(of_outputs), norms(of_inputs)]}))
            other(x).sum().backward()
            debugger.start(model); model(x).sum().backward(); debugger.stop(); debugger.step()
            json.dump(truth, open("truth.json", "w"))
        """, level="L0")
        with open(os.path.join(dump.folder, "truth.json")) as file:
            truth = json.load(file)
        self.assertEqual(len(truth), 6)
        for name, ends in truth.items():
            [entry] = [entry for key, entry in dump.data().items()
                       if re.match(r"Module\.%s\.[A-Z][a-z]+\.backward\.0$" % re.escape(name), key)]
            for side, expected in zip(("input", "output"), ends):
                found = [0.0 if element is None else element["Norm"] for element in entry[side]]
                self.assertEqual(len(found), len(expected))
                for element, other in zip(found, expected):
                    self.assertAlmostEqual(element, other or 0.0, 5, name)

    def test_the_gradient_of_a_result_leaves_out_what_the_call_does_with_it(self):
        for used, expected in (("y", None), ("y + w * 100", 100.0)):
            dump = self.run_code("""
                class Two(nn.Module):
                    def forward(self, x): w = x * 2; return w.pow(2), w
                class Top(nn.Module):
                    def __init__(self): super().__init__(); self.two = Two()
                    def forward(self, x): y, w = self.two(x * 1); return %s
                model, x = Top(), torch.full((2,), 3.0, requires_grad=True)
                debugger.start(model); model(x).sum().backward(); debugger.stop(); debugger.step()
                assert x.grad.tolist() == [2 * (12 + %s)] * 2, x.grad
            """ % (used, expected or 0), level="L0")
            entry = dump.data()["Module.two.Two.backward.0"]
            of_y, of_w = entry["input"]
            self.assertEqual((of_y["Max"], of_w and of_w["Max"]), (1.0, expected))
            self.assertEqual(entry["output"][0]["Max"], 2 * (12 + (expected or 0)))

    def test_what_observes_gradients_goes_with_the_graph(self):
        """Without waiting for the collector of garbage, which would then run more often."""
        self.run_code("""
            import gc
            json.dump({"targets": {}, "xy_distribution": True, "ops": ["norm"], "step_interval": 1}, open("monitor.json", "w"))
            model = nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.Tanh(), nn.Identity()), nn.Linear(3, 1))
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            monitor = TrainerMon("monitor.json"); monitor.set_monitor(model, optimizer)
            gc.disable()
            for step in range(2):
                debugger.start(model)
                model(torch.ones(2, 2)).sum().backward(); optimizer.step(); optimizer.zero_grad()
                debugger.stop(); debugger.step()
            monitor.close()
            left = {type(item).__name__ for item in gc.get_objects() if str(type(item).__module__).startswith("msprobe")}
            assert not left & {"CallGradients", "_Boundary", "_Point", "_Call"}, left
        """, prologue=PROLOGUE + MONITOR)

    def test_inputs_are_those_before_the_call(self):
        dump = self.run_code("""
            model = nn.Sequential(nn.Identity(), nn.LeakyReLU(0.1, inplace=True))
            debugger.start(model); model(torch.tensor([-10.0, 1.0])); debugger.stop(); debugger.step()
        """, level="L0")
        entry = dump.data()["Module.1.LeakyReLU.forward.0"]
        self.assertEqual((entry["input_args"][0]["Min"], entry["output"][0]["Min"]), (-10.0, -1.0))

    def test_what_cannot_be_seen_is_told_and_left_out(self):
        dump = self.run_code("""
            class Top(nn.Module):
                def __init__(self): super().__init__(); self.a = nn.Linear(4, 4); self.d = nn.ReLU(inplace=True)
                def forward(self, x): h = self.a(x); return self.d(h.view(2, 2))
            model = Top()
            debugger.start(model); model(torch.ones(1, 4)).sum().backward(); debugger.stop(); debugger.step()
        """, level="L0")
        self.assertEqual(dump.data()["Module.d.ReLU.backward.0"]["output"], [None])
        self.assertEqual(dump.output.count("cannot be distinguished"), 1, dump.output)

    def test_threads_get_the_gradients_that_they_get_without_us(self):
        code = """
            import threading
            class Top(nn.Module):
                def __init__(self): super().__init__(); self.a = nn.Linear(8, 8)
                def forward(self, x):
                    results = [None] * 4
                    def work(i): results[i] = torch.tanh(self.a(x + i))
                    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
                    for thread in threads: thread.start(); thread.join()
                    return sum(results)
            model = Top()
            %s
            model(torch.randn(5, 8)).pow(2).mean().backward()
            %s
            print(model.a.weight.grad.double().sum().item())
        """
        plain = self.run_code(code % ("", "")).output.splitlines()[-1]
        seen = self.run_code(code % ("debugger.start(model)", "debugger.stop(); debugger.step()"))
        self.assertEqual(seen.output.splitlines()[-1], plain)


    def test_threads_sum_their_gradients_in_the_order_that_they_have_without_a_monitor(self):
        """Autograd orders nodes of several threads by numbers that each thread counts for itself."""
        code = MONITOR + """
import threading
class Top(nn.Module):
    def __init__(self): super().__init__(); self.a = nn.Linear(8, 8); self.b = nn.Linear(8, 8)
    def forward(self, x):
        results = [None] * 4
        def work(i): results[i] = self.b(torch.tanh(self.a(x + i)))
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads: thread.start(); thread.join()
        return sum(results)
torch.manual_seed(0)
model = Top()
if len(sys.argv) > 1: TrainerMon("monitor.json").set_monitor(model, torch.optim.SGD(model.parameters(), lr=0.1))
model(torch.randn(64, 8)).pow(2).mean().backward()
print(model.a.weight.grad.double().tolist())
"""
        plain = self.run_code("", prologue=PROLOGUE + code).output.splitlines()[-1]
        seen = self.run_code("", prologue=PROLOGUE + code, arguments=["monitor"])
        self.assertIn(plain, seen.output.splitlines())


class Slots(ForkedCase):
    def test_what_somebody_puts_between_two_steps_stays(self):
        """Hundreds of functions are replaced in one go: one of another, one deleted, one of a class."""
        dump = self.run_code("""
            model = nn.Sequential(nn.Linear(2, 2))
            def step():
                debugger.start(model); model(torch.ones(1, 2)); torch.add(torch.ones(1), 1); debugger.stop(); debugger.step()
            before = {holder: dict(vars(holder)) for holder in (torch, F, torch.Tensor)}
            step()
            for holder, names in before.items(): assert dict(vars(holder)) == names, holder
            add, theirs, absolute = torch.add, lambda *values: add(*values), F.hardtanh
            torch.add, torch.Tensor.own_name = theirs, 3
            del F.hardtanh
            step()
            assert torch.add is theirs and torch.Tensor.own_name == 3 and not hasattr(F, "hardtanh")
            F.hardtanh, torch.add = absolute, add
            step()
            assert torch.add is add and F.hardtanh is absolute
        """)
        for step in range(3):
            self.assertIn("Torch.add.0.forward", dump.names(step))
        self.assertNotIn("replaced by somebody else", dump.output)

    def test_what_is_put_once_is_let_go(self):
        """A capture of many steps puts it in every one of them."""
        self.run_code("""
            import gc, types, weakref
            from msprobe._intercept.slots import over
            class Holder: pass
            Holder.function, Holder.method, Holder.builtin = F.relu, torch.Tensor.add, torch.mul
            for name, arguments in (("function", [torch.ones(1)]), ("method", [torch.ones(1), 1]), ("builtin", [torch.ones(1), 1])):
                seen, made = [], []
                def make(original):
                    def call(*args):
                        seen.append(args)
                        return original(*args)
                    made.append(weakref.ref(call))
                    return call
                slot = over(Holder, name, make)
                slot.put(); vars(Holder)[name](*arguments); slot.take(); vars(Holder)[name](*arguments)
                del slot
                assert len(seen) == 1 and made[0]() is None, name
            def handlers():
                gc.collect()
                return sum(isinstance(item, types.FunctionType) and str(item.__module__).startswith("msprobe") for item in gc.get_objects())
            model, counts = nn.Linear(2, 2), []
            for step in range(9):
                debugger.start(model); model(torch.ones(1, 2)); debugger.stop(); debugger.step()
                counts.append(handlers())
            assert counts[2] == counts[-1], counts
        """)

    @unittest.skipIf(sys.version_info < (3, 11), "calls of Python functions take stack")
    def test_a_program_may_recurse_as_deep_as_without_a_capture(self):
        dump = self.run_code("""
            import threading
            sys.setrecursionlimit(10 ** 6)
            def down(n): return 0 if n == 0 else 1 + down(n - 1)
            def named(*, n=0, x=None): return F.relu(x) if n == 0 else named(n=n - 1, x=x)
            class Node:
                def depth(self, n): return n and 1 + self.depth(n - 1)
            debugger.start(); found = []
            found.append(down(100000)); found.append(Node().depth(100000))
            thread = threading.Thread(target=lambda: found.append(down(100000))); thread.start(); thread.join()
            assert found == [100000] * 3, found
            assert named(n=100000, x=torch.ones(1) - 2).item() == 0
            F.silu(torch.ones(1)); debugger.stop(); debugger.step()
        """, level="L1")
        self.assertIn("Functional.silu.0.forward", dump.names())


class Names(ForkedCase):
    def test_two_models_of_one_step_have_names_of_their_own(self):
        dump = self.run_code("""
            draft, target = nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 2))
            for step in range(2):
                for model in (draft, target):
                    debugger.start(model); model(torch.ones(1, 2)).sum().backward(); debugger.stop()
                debugger.step()
        """, level="L0")
        for step in (0, 1):
            self.assertEqual([name for name in dump.names(step) if "forward" in name],
                             ["Module.0.Linear.forward.0", "Module.model1.0.Linear.forward.0"])
            self.assertIn("Module.model1.0.Linear.parameters_grad", dump.names(step))
        self.assertEqual(dump.output.count("model1"), 1, dump.output)

    def test_models_of_different_steps_keep_their_names(self):
        dump = self.run_code("""
            for step in range(2):
                model = nn.Sequential(nn.Linear(2, 2))
                debugger.start(model); model(torch.ones(1, 2)); debugger.stop(); debugger.step()
        """, level="L0")
        self.assertEqual(dump.names(0)[0], dump.names(1)[0])

    def test_a_model_that_its_script_drops_is_dropped(self):
        self.run_code("""
            import gc, weakref
            model, other = nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(2, 2))
            debugger.start(model); model(torch.ones(1, 2)).sum().backward(); debugger.stop(); debugger.step()
            debugger.start(other); debugger.stop(); debugger.step()
            gone = weakref.ref(model); del model; gc.collect()
            assert gone() is None
        """, level="L0")

    def test_inference_has_no_gradients_of_parameters(self):
        dump = self.run_code("""
            model = nn.Sequential(nn.Linear(2, 2))
            debugger.start(model)
            with torch.no_grad(): model(torch.ones(1, 2))
            debugger.stop(); debugger.step()
        """, level="L0")
        self.assertEqual(dump.names(), ["Module.0.Linear.forward.0"])

    def test_parameters_of_modules_that_are_not_called_have_gradients(self):
        code = """
            class Top(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.scale = nn.Parameter(torch.ones(4)); self.list = nn.ParameterList([nn.Parameter(torch.ones(4))])
                    self.attn = nn.MultiheadAttention(4, 2); self.unused = nn.Linear(4, 4); self.fc = nn.Linear(4, 4)
                def forward(self, x): return self.fc(self.attn(x, x, x)[0] * self.scale * self.list[0])
            model = Top()
            for step in range(2):
                debugger.start(model); (model(torch.randn(3, 2, 4)) ** 2).sum().backward(); debugger.stop(); debugger.step()
                assert not any(parameter._backward_hooks for parameter in model.parameters())
                norms = [parameter.grad.norm().item() for parameter in
                         (model.scale, model.list[0], model.attn.out_proj.weight, model.attn.out_proj.bias)]
                model.zero_grad()
            import json; json.dump(norms, open("norms.json", "w"))
        """
        dump = self.run_code(code, level="L0")
        gradients = {name[:-len(".parameters_grad")]: entry for name, entry in dump.data(1).items()
                     if name.endswith(".parameters_grad")}
        linear = "Module.attn.out_proj.NonDynamicallyQuantizableLinear"
        self.assertEqual(sorted(gradients), ["Module.Top", "Module.attn.MultiheadAttention", linear,
                                             "Module.fc.Linear", "Module.list.ParameterList"])
        with open(os.path.join(dump.folder, "norms.json"), encoding="utf-8") as file:
            wanted = json.load(file)
        found = [gradients["Module.Top"]["scale"], gradients["Module.list.ParameterList"]["0"],
                 gradients[linear]["weight"], gradients[linear]["bias"]]
        for entry, norm in zip(found, wanted):
            self.assertAlmostEqual(entry[0]["Norm"] / norm, 1, places=5)
        # Only what the step records is watched.
        dump = self.run_code(code, level="L0", section={"data_mode": ["forward"]})
        self.assertFalse([name for name in dump.names() if name.endswith("parameters_grad")])

    def test_no_hook_of_ours_stays_at_parameters_between_steps(self):
        self.run_code("""
            model = nn.Sequential(nn.Linear(2, 2))
            for step in range(2):
                debugger.start(model); model(torch.ones(1, 2)).sum().backward(); debugger.stop(); debugger.step()
                assert not any(parameter._backward_hooks for parameter in model.parameters())
        """)


class Tracers(ForkedCase):
    """Whoever reads the program finds it as it is."""

    CODE = """
        class Inner(nn.Module):
            def __init__(self): super().__init__(); self.q = nn.Linear(4, 4)
            def forward(self, x): return F.relu(self.q(x)) + torch.sigmoid(x)
        model = nn.Sequential(Inner(), Inner()); x = torch.randn(2, 4)
        def read():
            %s
        before = read()
        debugger.start(model)
        assert read() == before
        model(x).sum().backward()
        debugger.stop(); debugger.step()
    """

    def check(self, read, **options):
        for level in ("L0", "L1", "mix"):
            dump = self.run_code(self.CODE % read, level=level, **options)
            # Nothing of the tracing is in the dump.
            names = dump.names()
            self.assertLessEqual(sum(name.startswith("Module.0.Inner.forward") for name in names), 1)
            self.assertLessEqual(sum(name.startswith("Torch.sigmoid") and "forward" in name
                                     for name in names), 2)

    def test_torch_jit_trace(self):
        self.check("return str(torch.jit.trace(model, x, check_trace=False).inlined_graph).count(chr(10))")

    def test_torch_jit_script(self):
        self.check("return torch.jit.script(model).code")

    def test_torch_fx(self):
        self.check("import torch.fx; return torch.fx.symbolic_trace(model).code")

    def test_make_fx(self):
        self.check("from torch.fx.experimental.proxy_tensor import make_fx; "
                   "return make_fx(lambda x: F.relu(x) * 2 + torch.sigmoid(x))(x).code")

    @unittest.skipUnless(IS_TORCH_2, "what it compiles or exports with is of PyTorch 2")
    def test_fake_tensors(self):
        self.check("from torch._subclasses.fake_tensor import FakeTensorMode\n"
                   "            mode = FakeTensorMode()\n"
                   "            with mode: return tuple(F.relu(torch.empty(3, 4)).shape)")

    @unittest.skipUnless(IS_TORCH_2, "what it compiles or exports with is of PyTorch 2")
    def test_torch_export(self):
        self.check("return str(torch.export.export(model, (x,)).graph)")

    @unittest.skipUnless(IS_TORCH_2, "what it compiles or exports with is of PyTorch 2")
    def test_what_is_kept_from_the_compiler_does_not_end_its_work(self):
        """Frameworks and compilers call such functions in the middle of what is compiled."""
        said = self.run_code("""
            import torch._dynamo
            from msprobe._intercept.modules import ModuleCalls
            calls = ModuleCalls.of(nn.Module)
            found = []
            kept = torch._dynamo.disable(lambda: None)

            def backend(graph, inputs):
                found.append(calls._slot is None)
                kept()
                found.append(calls._slot is None)
                return graph.forward

            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.first, self.second = nn.Linear(2, 2), nn.Linear(2, 2)
                def forward(self, x):
                    x = self.first(x)
                    kept()
                    return self.second(x)

            model = Model()
            compiled = torch.compile(model, backend=backend)
            for _ in range(2):
                debugger.start(model=model)
                found.append(calls._slot is not None)
                compiled(torch.ones(1, 2)).sum().backward()
                found.append(calls._slot is not None)
                debugger.stop(); debugger.step()
            print("right" if len(found) >= 8 and all(found) else found)
            """).output
        self.assertIn("right", said.splitlines(), said)

    @unittest.skipUnless(IS_TORCH_2, "what it compiles or exports with is of PyTorch 2")
    def test_compiled_functions_are_compiled_once(self):
        for level in ("L1", "mix"):
            dump = self.run_code("""
                seen = []
                def backend(graph, inputs): seen.append(graph.code); return graph.forward
                model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
                step = torch.compile(lambda x: F.softmax(model(x), -1).sum(), backend=backend)
                for i in range(4):
                    if i % 2: debugger.start(model)
                    step(torch.ones(2, 4)).backward()
                    if i % 2: debugger.stop(); debugger.step()
                assert len(seen) == 1, seen
            """, level=level)
            self.assertEqual(dump.output.count("compiled code runs"), 1, dump.output)


class Patches(ForkedCase):
    """What others replace stays theirs."""

    def test_patches_before_during_and_after_ours_stay(self):
        dump = self.run_code("""
            called = []
            model = nn.Sequential(nn.Linear(2, 2))
            def patch(tag):
                linear, call = F.linear, nn.Module.__call__
                F.linear = lambda *values: (called.append(tag), linear(*values))[1]
                def wrapped(self, *args, **kwargs):
                    called.append("call " + tag); return call(self, *args, **kwargs)
                nn.Module.__call__ = wrapped
            original = F.linear, nn.Module.__call__
            patch("before")
            debugger.start(model); patch("during"); model(torch.ones(1, 2)); debugger.stop(); debugger.step()
            patch("after"); called.clear(); model(torch.ones(1, 2))
            # Root and child; outermost patch first.
            assert called == ["call after", "call during", "call before"] * 2 + ["after", "during", "before"], called
            debugger.start(model); model(torch.ones(1, 2)); debugger.stop(); debugger.step()
            called.clear(); model(torch.ones(1, 2))
            assert called == ["call after", "call during", "call before"] * 2 + ["after", "during", "before"], called
        """)
        for step in (0, 1):
            names = dump.names(step)
            self.assertEqual(sum(name == "Module.0.Linear.forward.0" for name in names), 1)
            self.assertNotIn("Module.0.Linear.forward.1", names)
            self.assertNotIn("Functional.linear.1.forward", names)
        self.assertEqual(dump.output.count("Module.__call__ was replaced by somebody else"), 1, dump.output)
        self.assertEqual(dump.output.count("functional.linear was replaced by somebody else"), 1)


class Together(ForkedCase):
    """Capture, monitor and the check of configurations, in every order of coming and going."""

    def test_no_work_of_the_monitor_is_in_the_dump(self):
        code = MONITOR + """
model = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if len(sys.argv) > 1: TrainerMon("monitor.json").set_monitor(model, optimizer)
for step in range(2):
    debugger.start(model)
    model(torch.ones(2, 2)).sum().backward(); optimizer.step(); optimizer.zero_grad()
    debugger.stop(); debugger.step()
"""
        alone = self.run_code("", prologue=PROLOGUE + code)
        both = self.run_code("", prologue=PROLOGUE + code, arguments=["monitor"])
        for step in (0, 1):
            self.assertEqual(both.names(step), alone.names(step))
            self.assertEqual(both.data(step), alone.data(step))

    @unittest.skipUnless(IS_TORCH_2, "FSDP of PyTorch 1.13 wants an accelerator")
    def test_no_work_of_the_monitor_is_in_the_dump_of_a_sharded_model(self):
        code = MONITOR + """
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
dist.init_process_group("gloo", init_method="file://" + os.path.abspath("meeting"), rank=0, world_size=1)
model = nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3), nn.Linear(3, 1))
model = FullyShardedDataParallel(model, device_id=torch.device("cpu"), use_orig_params=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
if len(sys.argv) > 1: TrainerMon("monitor.json").set_monitor(model, optimizer)
for step in range(2):
    debugger.start(model)
    model(torch.ones(2, 2)).sum().backward(); optimizer.step(); optimizer.zero_grad()
    debugger.stop(); debugger.step()
if len(sys.argv) > 1: print("rows", sum(len(table) for table in rows("grad_unreduced*").values()))
"""
        alone = self.run_code("", prologue=PROLOGUE + code)
        both = self.run_code("", prologue=PROLOGUE + code, arguments=["monitor"])
        self.assertRegex(both.output, r"rows [1-9]")
        self.assertNotIn("not a leaf", alone.output)
        for step in (0, 1):
            self.assertEqual(both.names(step, "rank0"), alone.names(step, "rank0"))

    def test_every_pair_in_every_order(self):
        """Each pair begins and ends in both orders; what each sees is what it sees alone."""
        code = MONITOR + """
from msprobe._intercept.modules import ModuleCalls, SeenCall
from msprobe.core.config_check.calls import CallsOfOne
model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
class Capture:
    def begin(self): debugger.start(model)
    def end(self): debugger.stop(); debugger.step()
    def seen(self, at):
        return json.load(open("dump/step%d/rank/dump.json" % at))["data"]
class Monitor:
    def begin(self): self.monitor = TrainerMon("monitor.json"); self.monitor.set_monitor(model, optimizer)
    def end(self): self.monitor.close()
    def values(self):
        return self.monitor.generate_xy_metrics()
    def seen(self, at): return repr(self.rows)
class Check:
    def begin(self): self.calls = []; self.handle = CallsOfOne(nn.Module, model[2], lambda args, kwargs: self.calls.append(args[0].sum().item()))
    def end(self): self.handle.remove()
    def seen(self, at): return self.calls
class Changer:
    "Changes arguments and results, as a fault injection would."
    def __init__(self): self.only = {id(model[1]): model[1]}
    def before(self, module, args, kwargs): return Doubled((args[0] * 2,), kwargs)
    def begin(self): ModuleCalls.of(nn.Module).subscribe(self)
    def end(self): ModuleCalls.of(nn.Module).unsubscribe(self)
    def seen(self, at): return None
class Doubled(SeenCall):
    def after(self, result): return result + 1
kinds = {"capture": Capture, "monitor": Monitor, "check": Check}
before = nn.Module.__call__, F.linear
steps = [0]
def differs(mine, other):
    if not isinstance(mine, dict): return mine, other
    return list(mine) == list(other), {key: (mine.get(key), other.get(key)) for key in {**mine, **other} if mine.get(key) != other.get(key)}
def run(coming, going):
    at, made = steps[0], {name: kinds[name]() for name in coming}
    if "capture" in made: steps[0] += 1
    for name in coming: made[name].begin()
    loss = model(torch.ones(2, 2)).pow(2).sum(); loss.backward()
    if "monitor" in made:
        made["monitor"].rows = made["monitor"].values()
    for parameter in model.parameters(): parameter.grad = None
    for name in going: made[name].end()
    assert (nn.Module.__call__, F.linear) == before, (coming, going)
    assert ModuleCalls.of(nn.Module)._slot is None, (coming, going)
    return {name: made[name].seen(at) for name in coming}, loss.item()
alone = {name: run([name], [name]) for name in kinds}
for mine in kinds:
    for other in kinds:
        if mine == other: continue
        for going in ([mine, other], [other, mine]):
            seen, loss = run([mine, other], going)
            for name in (mine, other):
                assert seen[name] == alone[name][0][name], (mine, other, going, differs(seen[name], alone[name][0][name]))
                assert loss == alone[name][1]
# One that changes what others see.
plain = model(torch.ones(2, 2)).sum().item()
for first in ("capture", "changer"):
    kinds["changer"] = Changer
    order = [first] + [name for name in ("capture", "changer") if name != first]
    run(order, order)
print("done")
"""
        dump = self.run_code("", prologue=PROLOGUE + code)
        self.assertIn("done", dump.output)
        self.assertNotIn("replaced by somebody", dump.output)

    def test_a_capture_that_goes_leaves_the_monitor_in_place(self):
        self.run_code("", prologue=PROLOGUE + MONITOR + """
model = nn.Sequential(nn.Linear(2, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
debugger.start(model)
monitor = TrainerMon("monitor.json"); monitor.set_monitor(model, optimizer)
debugger.stop(); debugger.step()
model(torch.ones(1, 2)).sum().backward()
activations, gradients = monitor.generate_xy_metrics()
assert len(activations) == 4 and len(gradients) == 4, (activations, gradients)
""")

    def test_a_subscriber_that_fails_is_switched_off_and_told_once(self):
        dump = self.run_code("""
            from msprobe._intercept.modules import ModuleCalls, SeenCall
            class Before:
                only = None
                def before(self, *call): raise ZeroDivisionError("ours")
            class After:
                only = None
                def before(self, module, args, kwargs): return Late(args, kwargs)
            class Late(SeenCall):
                def after(self, result): raise KeyError("ours too")
            model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
            calls = ModuleCalls.of(nn.Module)
            plain = model(torch.ones(1, 2))
            for subscriber in (Before(), After()): calls.subscribe(subscriber)
            for _ in range(3): assert torch.equal(model(torch.ones(1, 2)), plain)
            debugger.start(model); model(torch.ones(1, 2)); debugger.stop(); debugger.step()
        """, level="L0")
        self.assertEqual(dump.output.count("is switched off"), 2, dump.output)
        self.assertIn("ZeroDivisionError", dump.output)
        self.assertEqual(len([name for name in dump.names() if "forward" in name]), 2)


class Source(unittest.TestCase):
    @staticmethod
    def _sources():
        """(path below the package, text) of all files of the shim that run inside of a training: the worker of the
        accuracy check is a process of its own."""
        root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "tools",
                            "python", "msprobe")
        for folder, below, names in os.walk(root):
            below[:] = [name for name in below if name != "_accuracy"]
            for name in names:
                if name.endswith(".py"):
                    path = os.path.join(folder, name)
                    with open(path, encoding="utf-8") as file:
                        yield os.path.relpath(path, root), file.read()

    def test_one_place_replaces_calls_of_modules(self):
        found = []
        for path, text in self._sources():
            found += [path for _ in re.findall(
                r"\.__call__\s*=[^=]|setattr\([^)]*__call__|\b(?:Slot|over)\([^)]*\"__call__\"", text)]
            if not path.startswith("_intercept"):
                self.assertNotRegex(text, r"\bsetattr\(", path)
        # The other one is the jit executor of MindSpore, which is no module.
        self.assertEqual(sorted(found), ["_intercept/modules.py", "mindspore/api_hooks.py"])

    def test_one_runtime_guards_tells_and_ends(self):
        owned = (r"\batexit\b|\bregister_at_fork\b|\bFinalize\b|\breport_error\b|\bextract_tb\b"
                 r"|def (say_once|guarded|guard|own_work)\b")
        for path, text in self._sources():
            if path == "_intercept/runtime.py":
                self.assertRegex(text, owned)
                continue
            self.assertNotRegex(text, owned, path)
            if path.startswith("_intercept"):  # subscribers know it, it knows none of them
                for module in re.findall(r"^(?:from|import) (msprobe\S*)", text, re.MULTILINE):
                    self.assertRegex(module, r"^msprobe(\._intercept.*)?$", path)


if __name__ == "__main__":
    unittest.main(verbosity=1)
