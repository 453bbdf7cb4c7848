"""What the hooks record, and that a training goes its way beside them."""
import sys
import unittest

try:
    import torch
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

from shim_case import ForkedCase

IS_TORCH_2 = int(torch.__version__.split(".")[0]) >= 2


class Apis(ForkedCase):
    def test_an_exception_in_one_call_does_not_end_the_capture(self):
        dump = self.run_code("""
            debugger.start()
            try:
                torch.matmul(torch.ones(2, 3), torch.ones(2, 3))
            except RuntimeError:
                pass
            torch.abs(torch.ones(2))
            debugger.stop(); debugger.step()
            debugger.start(); torch.abs(torch.ones(2)); debugger.stop(); debugger.step()
        """, level="L1")
        self.assertEqual(dump.names(), ["Torch.matmul.0.forward", "Torch.abs.0.forward"])
        self.assertNotIn("output", dump.data()["Torch.matmul.0.forward"])
        self.assertEqual(dump.names(1), ["Torch.abs.0.forward"])

    def test_only_the_outermost_call_is_recorded(self):
        dump = self.run_code("""
            debugger.start()
            F.cross_entropy(torch.ones(2, 3), torch.tensor([0, 1]))
            debugger.stop(); debugger.step()
        """, level="L1")
        self.assertEqual(dump.names(), ["Functional.cross_entropy.0.forward"])

    def test_counters_go_on_over_stop_and_begin_anew_with_a_step(self):
        dump = self.run_code("""
            for _ in range(2):
                debugger.start(); torch.abs(torch.ones(1)); debugger.stop()
                torch.abs(torch.ones(1))
                debugger.start(); torch.abs(torch.ones(1)); debugger.stop(); debugger.step()
        """, level="L1")
        for step in (0, 1):
            self.assertEqual(dump.names(step), ["Torch.abs.0.forward", "Torch.abs.1.forward"])

    def test_names_do_not_depend_on_filters(self):
        dump = self.run_code("""
            debugger.start()
            for _ in range(12): torch.abs(torch.ones(1))
            debugger.stop(); debugger.step()
        """, level="L1", section={"list": ["name-exact(Torch.abs.1.forward)", "abs.11"]})
        self.assertEqual(dump.names(), ["Torch.abs.1.forward", "Torch.abs.11.forward"])

    def test_functions_and_calls_of_modules_are_the_same_objects_at_any_time(self):
        dump = self.run_code("""
            before = {name: getattr(torch, name) for name in ("abs", "matmul")}
            add, linear, call = torch.Tensor.__add__, F.linear, nn.Module.__call__
            def untouched():
                return (all(getattr(torch, name) is value for name, value in before.items())
                        and torch.Tensor.__add__ is add and F.linear is linear
                        and nn.Module.__call__ is call)
            assert untouched()
            model = nn.Sequential(nn.Linear(2, 2))
            debugger.start(model)
            assert untouched()
            model(torch.abs(torch.ones(2, 2)))
            debugger.stop(); debugger.step()
            assert untouched()
            assert "__add__" in vars(torch.Tensor) or torch.Tensor.__add__ is add
        """)
        self.assertIn("Torch.abs.0.forward", dump.names())
        self.assertIn("Module.0.Linear.forward.0", dump.names())

    def test_stand_ins_are_what_they_stand_for(self):
        self.run_code("""
            import copy, inspect, pickle
            softmax, linear = F.softmax, F.linear
            debugger.start()
            assert F.softmax == softmax and softmax == F.softmax and softmax in [F.softmax]
            assert hash(F.softmax) == hash(softmax) and F.softmax != linear
            assert F.softmax.__name__ == "softmax" and F.softmax.__doc__ == softmax.__doc__
            assert inspect.signature(F.softmax) == inspect.signature(softmax)
            kept = F.softmax
            assert copy.deepcopy(kept) is kept
            assert pickle.loads(pickle.dumps(kept)) is kept
            debugger.stop(); debugger.step()
            assert pickle.loads(pickle.dumps(kept)) is softmax
            assert torch.equal(kept(torch.ones(2), 0), softmax(torch.ones(2), 0))
        """, level="L1")

    def test_scripted_functions_compile_while_recording(self):
        dump = self.run_code("""
            def twice(x: torch.Tensor) -> torch.Tensor:
                return torch.relu(x) + torch.nn.functional.relu(x)
            debugger.start()
            scripted = torch.jit.script(twice)
            assert float(scripted(torch.ones(1))) == 2
            torch.abs(torch.ones(1))
            debugger.stop(); debugger.step()
        """, level="L1")
        self.assertIn("Torch.abs.0.forward", dump.names())

    def test_each_thread_has_its_own_inside(self):
        dump = self.run_code("""
            import threading
            entered, leave = threading.Event(), threading.Event()
            class Slow(torch.Tensor):
                @classmethod
                def __torch_function__(cls, function, types, args=(), kwargs=None):
                    entered.set(); leave.wait(10)
                    return super().__torch_function__(function, types, args, kwargs or {})
            def other():
                torch.abs(torch.ones(1).as_subclass(Slow))
            debugger.start()
            thread = threading.Thread(target=other); thread.start()
            entered.wait(10)
            torch.matmul(torch.ones(1, 1), torch.ones(1, 1))
            leave.set(); thread.join()
            debugger.stop(); debugger.step()
        """, level="L1")
        self.assertIn("Torch.matmul.0.forward", dump.names())

    def test_functions_of_the_user_can_be_recorded(self):
        dump = self.run_code("""
            import types
            mine = types.ModuleType("mine")
            def scale(x, by=2): return x * by
            mine.scale = scale
            debugger.register_custom_api(mine, "scale")
            debugger.start()
            mine.scale(torch.ones(2), by=3)
            debugger.stop(); debugger.step()
            debugger.restore_custom_api(mine, "scale")
            assert mine.scale is scale
        """, level="L1", section={"scope": ["mine.scale.0.forward", "mine.scale.0.forward"]})
        self.assertEqual(dump.names(), ["mine.scale.0.forward"])
        self.assertEqual(dump.data()["mine.scale.0.forward"]["input_kwargs"]["by"]["value"], 3)

    def test_gradients_of_the_real_inputs_can_be_had(self):
        code = """
            torch.manual_seed(3)
            layer = nn.Linear(4, 2)
            x = torch.ones(2, 3, 4, requires_grad=True)
            debugger.start()
            F.linear(x, layer.weight, layer.bias).sum().backward()
            debugger.stop(); debugger.step()
        """
        of_node = self.run_code(code, level="L1").data()["Functional.linear.0.backward"]
        self.assertEqual([value["shape"] for value in of_node["output"]], [[6, 2]])
        of_inputs = self.run_code(code, level="L1", api_backward="inputs")
        entry = of_inputs.data()["Functional.linear.0.backward"]
        self.assertEqual([value["shape"] for value in entry["input"]], [[2, 3, 2]])
        self.assertEqual([value["shape"] for value in entry["output"]],
                         [[2, 3, 4], [2, 4], [2]])
        self.assertEqual(entry["output"][2]["Max"], 6.0)

    def test_gradients_after_stop_belong_to_the_step(self):
        dump = self.run_code("""
            x = torch.ones(2, requires_grad=True)
            debugger.start(); y = torch.abs(x).sum(); debugger.stop()
            y.backward(); debugger.step()
            late = None
            debugger.start(); late = torch.abs(x).sum(); debugger.stop(); debugger.step()
            late.backward()
        """, level="L1")
        self.assertIn("Torch.abs.0.backward", dump.names(0))
        self.assertNotIn("Torch.abs.0.backward", dump.names(1))


    def test_calls_of_autograd_itself_are_not_recorded(self):
        dump = self.run_code("""
            class Same(torch.autograd.Function):
                @staticmethod
                def forward(ctx, x): return x
                @staticmethod
                def backward(ctx, gradient): return gradient
            x = torch.ones(2, requires_grad=True)
            debugger.start()
            Same.apply(x)
            torch.ones(1, 2).view_as(x.detach().reshape(1, 2))
            debugger.stop(); debugger.step()
        """, level="L1")
        self.assertEqual([name for name in dump.names() if "view_as" in name],
                         ["Tensor.view_as.0.forward"])


class Values(ForkedCase):
    def test_what_cannot_be_read_is_described_and_harms_nothing_after_it(self):
        dump = self.run_code("""
            debugger.start()
            sparse = torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (2,))
            torch.abs(sparse)
            torch.abs(torch.empty(2, device="meta"))
            torch.dequantize(torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8))
            torch.abs(torch.ones(2))
            debugger.stop(); debugger.step()
        """, task="tensor", level="L1", section={"summary_mode": "md5"})
        data = dump.data()
        for name in ("Torch.abs.0.forward", "Torch.abs.1.forward"):
            described = data[name]["input_args"][0]
            self.assertEqual((described["shape"], described["Max"]), ([2], None))
        self.assertEqual(data["Torch.abs.2.forward"]["input_args"][0]["data_name"],
                         "Torch.abs.2.forward.input.0.pt")
        self.assertEqual(dump.files(), ["Torch.abs.2.forward.input.0.pt",
                                        "Torch.abs.2.forward.output.0.pt"]
                         + [name for name in dump.files() if "dequantize" in name])
        self.assertEqual(dump.errors(), "")

    def test_extreme_values_keep_their_range(self):
        dump = self.run_code("""
            debugger.start()
            torch.abs(torch.tensor(-2.5))
            torch.abs(torch.tensor([2**40 + 1, 3]))
            torch.abs(torch.tensor([1e300, 2.0], dtype=torch.float64))
            torch.abs(torch.tensor([60000.0, 60000.0], dtype=torch.float16))
            debugger.stop(); debugger.step()
        """, level="L1")
        inputs = [entry["input_args"][0] for entry in dump.data().values()]
        self.assertEqual((inputs[0]["Max"], inputs[0]["Norm"]), (-2.5, 2.5))
        self.assertEqual(inputs[1]["Max"], 2**40 + 1)
        self.assertEqual(inputs[2]["Max"], 1e300)
        self.assertAlmostEqual(inputs[3]["Mean"], 60000.0, delta=1)
        self.assertLess(inputs[3]["Norm"], 90000)

    def test_counts_tell_what_a_nan_hides(self):
        dump = self.run_code("""
            debugger.start()
            torch.abs(torch.tensor([1.0, float("nan"), -float("inf"), 0.0]))
            debugger.stop(); debugger.step()
        """, level="L1", extended_statistics=True)
        extended = dump.data()["Torch.abs.0.forward"]["input_args"][0]["extended"]
        self.assertIn(1, extended.values())

    def test_positional_dtypes_and_devices_are_described(self):
        dump = self.run_code("""
            debugger.start()
            torch.ones(2).to(torch.float64)
            torch.ones(2).to(torch.device("cpu"))
            debugger.stop(); debugger.step()
        """, level="L1")
        first, second = [entry["input_args"][1] for entry in dump.data().values()]
        self.assertEqual(first, {"type": "torch.dtype", "value": "torch.float64"})
        self.assertEqual(second, {"type": "torch.device", "value": "cpu:None"})

    def test_deep_and_self_containing_arguments_end(self):
        dump = self.run_code("""
            ring = []
            ring.append(ring)
            def take(x, values): return x
            import types
            mine = types.ModuleType("mine"); mine.take = take
            debugger.register_custom_api(mine, "take")
            debugger.start()
            mine.take(torch.ones(1), ring)
            torch.abs(torch.ones(1))
            debugger.stop(); debugger.step()
        """, level="L1")
        self.assertIn("Torch.abs.0.forward", dump.names())

    def test_objects_that_raise_when_looked_at_are_null(self):
        dump = self.run_code("""
            class Trap:
                def __getattribute__(self, name): raise RuntimeError("hands off")
                def __str__(self): raise RuntimeError("hands off")
            def take(x, *values, **named): return x
            import types
            mine = types.ModuleType("mine"); mine.take = take
            debugger.register_custom_api(mine, "take")
            debugger.start()
            mine.take(torch.ones(1), Trap(), dtype=Trap(), big=2**70, text="a\\ud800b")
            debugger.stop(); debugger.step()
        """, level="L1")
        entry = dump.data()["mine.take.0.forward"]
        self.assertIsNone(entry["input_args"][1])
        self.assertEqual(entry["input_kwargs"]["big"]["value"], 2**70)


class Modules(ForkedCase):
    def test_gradients_of_keyword_arguments_are_recorded(self):
        code = """
            class Add(nn.Module):
                def forward(self, x, other=None): return x * 2 + other * 3
            class Top(nn.Module):
                def __init__(self): super().__init__(); self.add = Add()
                def forward(self, x, y): return self.add(x, other=y) + x
            model = Top()
            x = torch.ones(2, requires_grad=True)
            y = %s
            debugger.start(model)
            model(x, y).sum().backward()
            debugger.stop(); debugger.step()
            print(x.grad.tolist())
        """
        dump = self.run_code(code % "torch.ones(2, requires_grad=True)", level="L0")
        output = dump.data()["Module.add.Add.backward.0"]["output"]
        self.assertEqual([value["Max"] for value in output], [2.0, 3.0])
        # One tensor given twice stays one: its gradient is told once.
        dump = self.run_code(code % "x", level="L0")
        output = dump.data()["Module.add.Add.backward.0"]["output"]
        self.assertEqual([value["Max"] for value in output], [5.0, 0.0])
        self.assertIn("[6.0, 6.0]", dump.output)

    def test_modules_that_work_in_place_lose_nothing(self):
        code = """
            torch.manual_seed(5)
            model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(inplace=True), nn.Linear(4, 2))
            x = torch.randn(2, 3)
            %s
            (model(x) ** 2).sum().backward()
            %s
            print([p.grad.sum().item() for p in model.parameters()])
        """
        dump = self.run_code(code % ("debugger.start(model)", "debugger.stop(); debugger.step()"))
        self.assertEqual(dump.output.strip().splitlines()[-1],
                         self.run_code(code % ("", "")).output.strip().splitlines()[-1])
        names = dump.names()
        for name in ("Module.0.Linear.backward.0", "Module.1.ReLU.backward.0",
                     "Module.2.Linear.backward.0"):
            self.assertIn(name, names)
        self.assertIsNotNone(dump.data()["Module.1.ReLU.backward.0"]["output"][0])

    def test_modules_that_overwrite_their_inputs_go_on_training(self):
        code = """
            class Residual(nn.Module):
                def forward(self, x, residual): return x.add_(residual)
            class Top(nn.Module):
                def __init__(self):
                    super().__init__(); self.a = nn.Linear(3, 3); self.add = Residual()
                def forward(self, x):
                    x = self.a(x)
                    return self.add(x * 1, x)
            torch.manual_seed(5)
            model = Top()
            for _ in range(2):
                %s
                (model(torch.ones(2, 3)) ** 2).sum().backward()
                %s
            print([p.grad.sum().item() for p in model.parameters()])
        """
        dump = self.run_code(code % ("debugger.start(model)", "debugger.stop(); debugger.step()"))
        self.assertEqual(dump.output.strip().splitlines()[-1],
                         self.run_code(code % ("", "")).output.strip().splitlines()[-1])
        for step in (0, 1):
            entry = dump.data(step)["Module.add.Residual.backward.0"]
            self.assertEqual(len(entry["output"]), 2)
            self.assertEqual(dump.errors(step), "")

    def test_gradients_of_parameters_add_up_over_backward_passes(self):
        dump = self.run_code("""
            model = nn.Sequential(nn.Linear(2, 1, bias=False))
            debugger.start(model)
            for factor in (1.0, 10.0):
                model(torch.full((1, 2), factor)).sum().backward()
            debugger.stop(); debugger.step()
            assert model[0].weight.grad.tolist() == [[11, 11]]
        """, level="L0")
        gradient = dump.data()["Module.0.Linear.parameters_grad"]["weight"][0]
        self.assertEqual(gradient["Max"], 11.0)

    def test_re_run_forwards_are_marked_in_both_forms(self):
        for reentrant in (True, False):
            dump = self.run_code("""
                from torch.utils.checkpoint import checkpoint
                class Top(nn.Module):
                    def __init__(self):
                        super().__init__()
                        self.a = nn.Linear(2, 2); self.b = nn.Linear(2, 2)
                    def forward(self, x):
                        return self.b(checkpoint(self.a, x, use_reentrant=%s))
                model = Top()
                debugger.start(model)
                model(torch.ones(1, 2, requires_grad=True)).sum().backward()
                debugger.stop(); debugger.step()
            """ % reentrant)
            data = dump.data()
            flags = {name: entry["is_recompute"] for name, entry in data.items()
                     if "is_recompute" in entry}
            self.assertTrue(flags["Module.a.Linear.forward.1"], reentrant)
            self.assertTrue(flags["Functional.linear.2.forward"], reentrant)
            self.assertFalse(flags["Module.a.Linear.forward.0"])
            self.assertFalse(flags["Module.b.Linear.forward.0"])
            self.assertIn("Module.b.Linear.backward.0", data)

    def test_an_exception_in_a_module_leaves_right_parents(self):
        dump = self.run_code("""
            class Bad(nn.Module):
                def forward(self, x): raise ValueError("no")
            class Top(nn.Module):
                def __init__(self):
                    super().__init__(); self.bad = Bad(); self.good = nn.ReLU()
                def forward(self, x):
                    try: self.bad(x)
                    except ValueError: pass
                    return self.good(x)
            model = Top()
            debugger.start(model)
            model(torch.ones(1)); torch.abs(torch.ones(1))
            debugger.stop(); debugger.step()
        """)
        construct = dump.construct()
        self.assertEqual(construct["Functional.relu.0.forward"], "Module.good.ReLU.forward.0")
        self.assertIsNone(construct["Module.good.ReLU.forward.0"])
        self.assertIsNone(construct["Torch.abs.0.forward"])

    def test_calls_of_optimizers_and_clipping_have_parents(self):
        dump = self.run_code("""
            model = nn.Sequential(nn.Linear(2, 2))
            optimizer = torch.optim.Adam(model.parameters(), foreach=False)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
            debugger.start(model)
            model(torch.ones(1, 2)).sum().backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step(); scheduler.step()
            torch.abs(torch.ones(1))
            debugger.stop(); debugger.step()
        """)
        construct = dump.construct()
        self.assertIsNone(construct["optimizer"])
        self.assertIn("optimizer", construct.values())
        self.assertIn("clip_grad", construct.values())
        self.assertIsNone(construct["Torch.abs.0.forward"])

    def test_shared_modules_and_lists_of_models_have_one_name(self):
        dump = self.run_code("""
            shared = nn.ReLU()
            models = [nn.Sequential(shared, shared), nn.Sequential(nn.ReLU())]
            debugger.start(models)
            for model in models: model(torch.ones(1))
            debugger.stop(); debugger.step()
        """, level="L0")
        self.assertEqual(dump.names(), ["Module.0.0.ReLU.forward.0", "Module.0.0.ReLU.forward.1",
                                        "Module.1.0.ReLU.forward.0"])

    def test_a_model_that_joins_later_is_recorded_too(self):
        dump = self.run_code("""
            first, second = nn.Sequential(nn.ReLU()), nn.Sequential(nn.ReLU())
            debugger.start([first]); first(torch.ones(1)); second(torch.ones(1))
            debugger.stop(); debugger.step()
            debugger.start([first, second]); first(torch.ones(1)); second(torch.ones(1))
            debugger.stop(); debugger.step()
        """, level="L0")
        self.assertEqual(dump.names(0), ["Module.0.0.ReLU.forward.0"])
        self.assertEqual(dump.names(1), ["Module.0.0.ReLU.forward.0", "Module.1.0.ReLU.forward.0"])

    def test_a_single_module_can_be_recorded(self):
        dump = self.run_code("""
            model = nn.Sequential(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), nn.Linear(2, 2))
            debugger.start()
            module_dump(model[0], "first")
            model(torch.ones(1, 2)).sum().backward()
            module_dump_end()
            torch.abs(torch.ones(1)); model(torch.ones(1, 2))
            debugger.stop(); debugger.step()
        """, level="L1")
        names = dump.names()
        self.assertEqual(names[0], "Module.first.Sequential.forward.0")
        self.assertIn("Module.first.Sequential.backward.0", names)
        self.assertIn("Torch.abs.0.forward", names)
        self.assertNotIn("Module.first.Sequential.forward.1", names)

    def test_a_range_of_forwards_can_be_chosen(self):
        dump = self.run_code("""
            model = nn.Sequential(nn.ReLU())
            debugger.start(model, token_range=[1, 2])
            for _ in range(5): model(torch.ones(1))
            debugger.stop(); debugger.step()
        """)
        self.assertEqual([name for name in dump.names() if name.startswith("Module")],
                         ["Module.0.ReLU.forward.1", "Module.0.ReLU.forward.2"])

    @unittest.skipUnless(IS_TORCH_2, "torch.compile is of PyTorch 2")
    def test_a_compiled_model_runs_and_is_told_apart(self):
        dump = self.run_code("""
            class Top(nn.Module):
                def __init__(self):
                    super().__init__(); self.a = nn.Linear(2, 2)
                    self.b = torch.compile(nn.Sequential(nn.Linear(2, 2)), backend="eager",
                                           fullgraph=True)
                def forward(self, x): return self.b(self.a(x))
            model = Top()
            debugger.start(model)
            model(torch.ones(1, 2)).sum().backward()
            debugger.stop(); debugger.step()
        """)
        self.assertIn("Module.a.Linear.forward.0", dump.names())
        self.assertIn("compiled", dump.output)


class Debug(ForkedCase):
    def test_values_and_their_gradients_are_saved_by_name(self):
        dump = self.run_code("""
            x = torch.ones(2, requires_grad=True)
            for _ in range(2):
                y = x * 2
                debugger.save({"y": y, "more": [1, 0.5, "text", y.detach()]}, "point")
                debugger.save(y, "point", save_backward=False)
                debugger.save(object(), "nothing")
                y.sum().backward()
                debugger.step()
        """, level="debug")
        for step in (0, 1):
            data = dump.data(step, name="debug.json")
            self.assertEqual(list(data), ["point.0.debug", "point_grad.0.debug", "point.1.debug"])
            self.assertEqual(data["point_grad.0.debug"]["y"]["Max"], 1.0)
            self.assertEqual(data["point_grad.0.debug"]["more"], [None, None, None, None])
        self.assertIn("nothing", dump.output)


if __name__ == "__main__":
    unittest.main(verbosity=1)
