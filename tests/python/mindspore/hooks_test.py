"""What is recorded of MindSpore programs: of the real one where it is installed, else of a stand-in."""
import os
import sys
import unittest
import zlib

import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "torch")]

from shim_case import ShimCase  # noqa: E402
from place import PLACE, REAL  # noqa: E402

PROLOGUE = """
import os, sys
sys.path[:0] = %r
import numpy as np
import mindspore as ms
from mindspore import Parameter, Tensor, communication, mint, nn, ops
from mindspore.communication import comm_func
import mindspore.mint.distributed as dist
import mindspore.mint.nn.functional as F
from msprobe.mindspore import MsprobeStep, PrecisionDebugger, seed_all

class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first = nn.Dense(3, 4)
        self.act = nn.ReLU()
        self.second = nn.Dense(4, 2)
        self.product = ops.MatMul()

    def construct(self, x):
        return self.second(self.act(self.first(x)))

def ones(*shape):
    return Tensor(np.ones(shape, "float32"))

debugger = PrecisionDebugger("config.json")
""" % PLACE

STEP = """
    net = Net()
    debugger.start(net)
    ms.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())(ones(5, 3))
    debugger.stop(); debugger.step()
"""


NO_PROCESSES = "MindSpore's processes need its own launcher"


# A tensor whose operation cannot run, which shows when somebody waits for it.
LATE_FAILURE = """
def late_failure():
    if %r:
        return mint.stack((ones(5, 3), ones(5, 3)))  # no kernel for CPUs
    ms.common.api._pynative_executor.failed.append(RuntimeError("the kernel is unregistered"))
    return ones(5, 3)
""" % REAL


class MindSporeCase(ShimCase):
    def run_code(self, code, **keys):
        keys.setdefault("prologue", PROLOGUE)
        return super().run_code(code, **keys)

    def array(self, dump, name, step=0):
        return numpy.load(dump.path("step%d" % step, "rank", "dump_tensor_data", name))


class Tensors(MindSporeCase):
    def test_tensors_are_described_as_mindspore_spells_them(self):
        dump = self.run_code("""
            debugger.start()
            mint.add(ones(2, 3), 2.5)
            debugger.stop(); debugger.step()
        """, level="L1")
        whole = dump.load("dump.json")
        self.assertEqual(whole["framework"], "mindspore")
        entry = whole["data"]["Mint.add.0.forward"]
        self.assertEqual(list(entry), ["input_args", "input_kwargs", "output"])
        self.assertEqual(entry["input_args"],
                         [{"type": "mindspore.Tensor", "dtype": "Float32", "shape": [2, 3],
                           "Max": 1.0, "Min": 1.0, "Mean": 1.0,
                           "Norm": entry["input_args"][0]["Norm"]},
                          {"type": "float", "value": 2.5}])
        self.assertAlmostEqual(entry["input_args"][0]["Norm"], 6 ** 0.5, places=5)
        self.assertEqual(entry["output"][0]["Max"], 3.5)

    def test_bfloat16_keeps_its_name_and_its_values(self):
        dump = self.run_code("""
            debugger.start()
            ops.cast(Tensor([1.5, -3.0], ms.bfloat16), ms.float32)
            debugger.stop(); debugger.step()
        """, level="L1", task="tensor")
        tensor = dump.data()["Functional.cast.0.forward"]["input_args"][0]
        self.assertEqual((tensor["dtype"], tensor["Max"], tensor["Min"]), ("BFloat16", 1.5, -3.0))
        stored = self.array(dump, "Functional.cast.0.forward.input.0.npy")
        self.assertEqual((stored.dtype, stored.tolist()), (numpy.float32, [1.5, -3.0]))

    def test_files_are_npy(self):
        dump = self.run_code("""
            debugger.start()
            mint.matmul(Tensor(np.arange(6, dtype="float32").reshape(2, 3)), ones(3, 1))
            debugger.stop(); debugger.step()
        """, level="L1", task="tensor")
        self.assertEqual(dump.files(), ["Mint.matmul.0.forward.input.0.npy",
                                        "Mint.matmul.0.forward.input.1.npy",
                                        "Mint.matmul.0.forward.output.0.npy"])
        self.assertEqual(self.array(dump, "Mint.matmul.0.forward.output.0.npy").tolist(),
                         [[3.0], [12.0]])

    def test_dtypes_and_arrays_are_described(self):
        dump = self.run_code("""
            mint.with_array = lambda array: ones(1)
            debugger.register_custom_api(mint, "with_array", "Own")
            debugger.start()
            ops.cast(ones(2), dtype=ms.float16)
            mint.with_array(np.ones(2, "float32"))
            debugger.stop(); debugger.step()
        """, level="L1")
        data = dump.data()
        self.assertEqual(data["Functional.cast.0.forward"]["input_kwargs"],
                         {"dtype": {"type": "mindspore.dtype", "value": "Float16"}})
        array = data["Own.with_array.0.forward"]["input_args"][0]
        self.assertEqual((array["type"], array["dtype"], array["Max"]),
                         ("numpy.ndarray", "float32", 1.0))

    def test_a_tensor_that_gives_no_values_is_described_and_told(self):
        dump = self.run_code("""
            class Unready(Tensor):
                def asnumpy(self): raise RuntimeError("not initialised")
            debugger.start()
            ops.relu(Unready(np.ones(3, "float32")))
            debugger.stop(); debugger.step()
        """, level="L1")
        tensor = dump.data()["Functional.relu.0.forward"]["input_args"][0]
        self.assertEqual((tensor["shape"], tensor["Max"]), ([3], None))
        self.assertIn("not initialised", dump.output)


class Calls(MindSporeCase):
    def test_prefixes_tell_where_a_function_is_from(self):
        dump = self.run_code("""
            debugger.start()
            mint.add(ones(1), 1); F.relu(ones(1)); ops.relu(ones(1)); ones(1) + ones(1)
            debugger.stop(); debugger.step()
        """, level="L1")
        self.assertEqual(dump.names(), [
            "Mint.add.0.forward", "MintFunctional.relu.0.forward", "Functional.relu.0.forward",
            "Tensor.__add__.0.forward"])

    @unittest.skipIf(REAL, NO_PROCESSES)
    def test_prefixes_of_collectives(self):
        dump = self.run_code("""
            debugger.start()
            comm_func.all_reduce(ones(1)); dist.all_reduce(ones(1))
            debugger.stop(); debugger.step()
        """, level="L1")
        self.assertEqual(dump.names(), ["Distributed.all_reduce.0.forward",
                                        "MintDistributed.all_reduce.0.forward"])

    def test_originals_are_back_after_the_step(self):
        self.run_code("""
            from msprobe._intercept.modules import ModuleCalls
            calls = ModuleCalls.of(nn.Cell)
            def present():
                return mint.add, ops.relu, F.linear, Tensor.__add__, nn.Cell.__call__
            before, net = present(), Net()
            product = net.product
            debugger.start(net)
            assert mint.add is not before[0] and calls._slot is not None
            assert net.product is not product and net.product.name == "MatMul"
            debugger.stop(); debugger.step()
            assert all(a is b for a, b in zip(before, present())) and calls._slot is None
            assert net.product is product and vars(net)["product"] is product
        """)

    def test_primitives_of_cells_are_named_after_their_attribute(self):
        dump = self.run_code("""
            net = Net()
            net.construct = lambda x: net.product(x, ones(3, 1))
            debugger.start(net)
            net(ones(2, 3)); net(ones(2, 3))
            debugger.stop(); debugger.step()
        """)
        self.assertEqual(dump.names(), ["Primitive.product.MatMul.0.forward",
                                        "Primitive.product.MatMul.1.forward"])

    @unittest.skipIf(REAL, NO_PROCESSES)
    def test_what_a_collective_gives_back_is_recorded_when_it_is_there(self):
        dump = self.run_code("""
            debugger.start()
            result, handle = comm_func.all_reduce(ones(2), async_op=True)
            ops.relu(ones(1))
            handle.wait()
            tensor = ones(2)
            dist.all_reduce(tensor, async_op=True).wait()
            debugger.stop(); debugger.step()
        """, level="L1")
        data = dump.data()
        self.assertEqual(data["Distributed.all_reduce.0.forward"]["output"][0]["Max"], 2.0)
        of_mint = data["MintDistributed.all_reduce.0.forward"]
        self.assertEqual(of_mint["input_args"][0]["Max"], 1.0)
        self.assertEqual(of_mint["output"][0]["Max"], 2.0)

    @unittest.skipIf(REAL, NO_PROCESSES)
    def test_point_to_point_operations_are_described(self):
        dump = self.run_code("""
            debugger.start()
            for handle in dist.batch_isend_irecv([dist.P2POp(dist.isend, ones(2), 1),
                                                  dist.P2POp(dist.irecv, ones(2), 1)]):
                handle.wait()
            debugger.stop(); debugger.step()
        """, level="L1")
        entry = dump.data()["MintDistributed.batch_isend_irecv.0.forward"]
        operation = entry["input_args"][0][0]
        self.assertEqual(operation["class_type"], "mindspore.mint.distributed.P2POp")
        self.assertEqual((operation["op"], operation["peer"], operation["tensor"]["shape"]),
                         ("isend", 1, [2]))
        self.assertEqual(operation["group_id"], "77849d8c")
        # What was received is there once it has been waited for.
        self.assertEqual(entry["input_args"][0][1]["tensor"]["Max"], 1.0)
        self.assertEqual(entry["output"][0][1]["tensor"]["Max"], 7.0)

    def test_compiled_functions_meet_the_originals_and_are_recorded_as_a_whole(self):
        dump = self.run_code("""
            @ms.jit
            def scaled(x):
                return mint.add(x, x)
            net = Net()
            debugger.start(net)
            scaled(ones(2)); mint.add(ones(1), 1)
            debugger.stop(); debugger.step()
        """)
        self.assertEqual(dump.names(), ["Jit.scaled.0.forward", "Mint.add.0.forward"])
        self.assertEqual(dump.data()["Jit.scaled.0.forward"]["output"][0]["Max"], 2.0)

    def test_an_exception_does_not_end_the_capture(self):
        dump = self.run_code("""
            debugger.start()
            try:
                mint.matmul(ones(2, 3), ones(2, 3))
            except (ValueError, RuntimeError):
                pass
            mint.add(ones(1), 1)
            debugger.stop(); debugger.step()
        """, level="L1")
        self.assertEqual(dump.names(), ["Mint.matmul.0.forward", "Mint.add.0.forward"])

    def test_what_fails_later_than_it_was_called_is_raised_into_the_training(self):
        # Reading a value for the capture must not swallow it.
        dump = self.run_code("""
            failed = 0
            net = Net()
            debugger.start(net)
            for what in (lambda: mint.add(late_failure(), 1), lambda: net(late_failure())):
                try:
                    what()
                except RuntimeError as error:
                    assert "unregistered" in str(error), error
                    failed += 1
            mint.add(ones(1), 1)
            debugger.stop(); debugger.step()
            assert failed == 2, failed
        """, prologue=PROLOGUE + LATE_FAILURE)
        self.assertEqual(dump.names()[-1].split(".")[:2], ["Mint", "add"])


class Cells(MindSporeCase):
    def test_cells_have_their_path_and_their_call_number(self):
        dump = self.run_code(STEP, level="L0")
        forward = [name for name in dump.names() if ".forward." in name]
        self.assertEqual(forward, ["Cell.first.Dense.forward.0", "Cell.act.ReLU.forward.0",
                                   "Cell.second.Dense.forward.0"])
        entry = dump.data()["Cell.first.Dense.forward.0"]
        self.assertEqual(list(entry), ["input_args", "input_kwargs", "output", "parameters"])
        self.assertEqual(list(entry["parameters"]), ["weight", "bias"])

    def test_gradients_of_parameters_are_recorded(self):
        data = self.run_code(STEP, level="L0").data()
        gradients = data["Cell.second.Dense.parameters_grad"]
        self.assertEqual([gradients[name][0]["shape"] for name in ("weight", "bias")],
                         [[2, 4], [2]])
        self.assertEqual(gradients["bias"][0]["Max"], 5.0)

    def test_gradients_that_are_not_computed_have_their_places(self):
        data = self.run_code("""
            net = Net()
            debugger.start(net)
            net(ones(5, 3))
            debugger.stop(); debugger.step()
        """, level="L0").data()
        self.assertEqual(data["Cell.first.Dense.parameters_grad"],
                         {"weight": [None], "bias": [None]})

    def test_backward_of_cells_names_gradients_in_their_direction(self):
        dump = self.run_code(STEP, level="L0")
        backward = [name for name in dump.names() if ".backward." in name]
        self.assertEqual(backward, ["Cell.second.Dense.backward.0", "Cell.act.ReLU.backward.0",
                                    "Cell.first.Dense.backward.0"])
        entry = dump.data()["Cell.second.Dense.backward.0"]
        self.assertEqual(list(entry), ["input", "output"])
        self.assertEqual([entry["input"][0]["shape"], entry["output"][0]["shape"]],
                         [[5, 2], [5, 4]])
        # What goes into the first one is data: nothing flows there.
        self.assertEqual(dump.data()["Cell.first.Dense.backward.0"]["output"], [None])

    def test_calls_know_their_cell_forward_and_backward(self):
        dump = self.run_code(STEP)
        construct = dump.construct()
        for name in ("forward.0", "backward.0"):
            api = "Primitive.matmul.MatMul.1." + name.split(".")[0]
            self.assertEqual(construct[api], "Cell.second.Dense." + name)
            self.assertIsNone(construct["Cell.second.Dense." + name])
        self.assertIn("Primitive.matmul.MatMul.1.backward", dump.names())

    def test_gradients_of_an_api_are_those_of_this_call(self):
        data = self.run_code("""
            debugger.start()
            def loss(x):
                return (x * 2.0 + x * 3.0).sum()
            value, gradient = ms.value_and_grad(loss)(ones(2))
            assert gradient.asnumpy().tolist() == [5.0, 5.0]
            debugger.stop(); debugger.step()
        """, level="L1").data()
        self.assertEqual([data["Tensor.__mul__.%d.backward" % n]["output"][0]["Max"]
                          for n in (0, 1)], [2.0, 3.0])
        self.assertEqual([item["Max"] for item in data["Tensor.__add__.0.backward"]["output"]],
                         [1.0, 1.0])

    def test_tensors_of_a_class_of_their_own_stay_what_they_are(self):
        dump = self.run_code("""
            class Marked(Tensor):
                pass
            def only_marked(x):
                assert type(x) is Marked
                return x * 2.0
            mint.only_marked = only_marked
            debugger.register_custom_api(mint, "only_marked", "Own")
            debugger.start()
            ms.value_and_grad(lambda x: mint.only_marked(x).sum())(Marked(np.ones(2, "float32")))
            debugger.stop(); debugger.step()
        """, level="L1")
        self.assertEqual(dump.data()["Own.only_marked.0.backward"]["output"][0]["Max"], 2.0)

    def test_parameters_stay_parameters_for_what_assigns_to_them(self):
        dump = self.run_code("""
            counter = Parameter(np.zeros(1, "float32"), "counter")
            debugger.start()
            ops.assign(counter, ones(1))
            debugger.stop(); debugger.step()
            assert float(counter) == 1.0
        """, level="L1")
        self.assertEqual(dump.data()["Functional.assign.0.forward"]["output"][0]["Max"], 1.0)

    def test_a_training_computes_the_same_with_and_without_capture(self):
        code = """
            def train(record):
                ms.set_seed(3)
                net = Net()
                optimizer = nn.SGD(net.trainable_params(), 0.1)
                losses = []
                for step in range(3):
                    if record: debugger.start(net)
                    loss, gradients = ms.value_and_grad(lambda x: net(x).sum(), None,
                                                        net.trainable_params())(ones(5, 3))
                    optimizer(gradients)
                    losses.append(float(loss))
                    if record: debugger.stop(); debugger.step()
                return losses
            assert train(False) == train(True)
        """
        dump = self.run_code(code)
        self.assertEqual(dump.steps(), ["step0", "step1", "step2"])

    def test_gradients_are_summed_in_the_order_of_a_plain_run(self):
        # What is used by a residual and several times by the Cell beside it: a node of ours between
        # would sum what the Cell sends first.
        for level in ("L0", "mix"):
            self.run_code("""
                class Several(nn.Cell):
                    def construct(self, x): return x * 1.1 + x * 0.3 + x * x

                class Residual(nn.Cell):
                    def __init__(self):
                        super().__init__()
                        self.first, self.several = nn.Dense(3, 4), Several()

                    def construct(self, x):
                        hidden = self.first(x)
                        return (hidden + self.several(hidden)).sum()

                net, generator = Residual(), np.random.RandomState(1)
                net.first.weight.set_data(Tensor(generator.randn(4, 3).astype("float32")))
                x = Tensor(generator.randn(50, 3).astype("float32"))
                def gradients():
                    _, found = ms.value_and_grad(net, None, net.trainable_params())(x)
                    return [item.asnumpy().tobytes() for item in found]
                plain = gradients()
                debugger.start(net)
                recorded = gradients()
                debugger.stop(); debugger.step()
                assert recorded == plain
            """, level=level)

    def test_a_step_without_stop_records_its_gradients_too(self):
        dump = self.run_code(STEP.replace("debugger.stop(); ", ""), level="L0")
        self.assertIn("Cell.first.Dense.backward.0", dump.names())

    def test_only_selected_calls_of_the_model_are_recorded(self):
        dump = self.run_code("""
            net = Net()
            debugger.start(net, token_range=[1, 2])
            for _ in range(4): net(ones(1, 3))
            debugger.stop(); debugger.step()
        """, level="L0")
        self.assertEqual([name for name in dump.names() if "first" in name and "forward" in name],
                         ["Cell.first.Dense.forward.1", "Cell.first.Dense.forward.2"])


class Tasks(MindSporeCase):
    def test_checksums_of_bfloat16_are_those_of_float32(self):
        dump = self.run_code("""
            debugger.start()
            ops.cast(Tensor([1.5, 2.0], ms.bfloat16), ms.float32)
            debugger.stop(); debugger.step()
        """, level="L1", section={"summary_mode": "md5"})
        tensor = dump.data()["Functional.cast.0.forward"]["input_args"][0]
        expected = zlib.crc32(numpy.array([1.5, 2.0], "float32").tobytes())
        self.assertEqual(tensor["md5"], "%08x" % expected)

    def test_structure_has_names_without_values(self):
        dump = self.run_code(STEP, task="structure")
        self.assertEqual(dump.names(), [])
        self.assertEqual(dump.construct()["Primitive.matmul.MatMul.0.forward"],
                         "Cell.first.Dense.forward.0")

    def test_only_calls_that_overflow_are_kept(self):
        dump = self.run_code("""
            debugger.start()
            ops.relu(ones(2)); ops.add(ones(2), Tensor(np.array([np.inf, 0], "float32")))
            debugger.stop(); debugger.step()
        """, level="L1", task="overflow_check")
        self.assertEqual(dump.names(), ["Functional.add.0.forward"])
        self.assertIn("Functional.add.0.forward.output.0.npy", dump.files())

    def test_a_scope_goes_from_cell_to_cell(self):
        dump = self.run_code(STEP, level="L0", section={
            "scope": ["Cell.act.ReLU.forward.0", "Cell.second.Dense.forward.0"]})
        self.assertEqual([name for name in dump.names() if "forward" in name],
                         ["Cell.act.ReLU.forward.0", "Cell.second.Dense.forward.0"])

    def test_a_list_selects_what_runs_inside_a_cell(self):
        dump = self.run_code(STEP, section={"list": ["Cell.act.ReLU"]})
        self.assertEqual([name for name in dump.names() if "parameters" not in name],
                         ["Primitive.relu.ReLU.0.forward", "Cell.act.ReLU.forward.0",
                          "Primitive.relu.ReLU.0.backward", "Cell.act.ReLU.backward.0"])

    def test_stacks_lead_to_the_line_of_the_script(self):
        dump = self.run_code(STEP, level="L0")
        stacks = dump.load("stack.json")
        frames = next(frames for names, frames in stacks.values()
                      if "Cell.act.ReLU.forward.0" in names)
        self.assertIn("self.second(self.act(self.first(x)))", "".join(frames))
        self.assertNotIn("msprobe/mindspore", "".join(frames))


class Runs(MindSporeCase):
    @unittest.skipIf(REAL, NO_PROCESSES)
    def test_the_rank_is_that_of_the_communication(self):
        dump = self.run_code("""
            communication.init(3)
            debugger.start(); ops.relu(ones(1)); debugger.stop(); debugger.step()
        """, level="L1")
        self.assertEqual(dump.ranks(), ["rank3"])

    def test_the_callback_makes_steps_of_model_train(self):
        dump = self.run_code("""
            from mindspore.train import RunContext
            net, callback = Net(), MsprobeStep(debugger)
            for _ in range(2):
                context = RunContext({"network": net})
                callback.on_train_step_begin(context)
                net(ones(1, 3))
                callback.on_train_step_end(context)
        """, level="L0")
        self.assertEqual(dump.steps(), ["step0", "step1"])
        self.assertIn("Cell.act.ReLU.forward.0", dump.names(1))

    def test_single_values_and_their_gradients_are_saved(self):
        dump = self.run_code("""
            def loss(x):
                hidden = x * 2.0
                debugger.save({"hidden": hidden, "layer": 1}, "block")
                return (hidden * 3.0).sum()
            ms.value_and_grad(loss)(ones(2))
            debugger.step()
        """, level="debug", task="tensor")
        data = dump.data(name="debug.json")
        self.assertEqual(data["block.0.debug"]["hidden"]["data_name"], "block.0.debug.hidden.npy")
        self.assertEqual(data["block_grad.0.debug"]["hidden"]["Max"], 3.0)
        self.assertIsNone(data["block_grad.0.debug"]["layer"])

    def test_static_graphs_are_told_and_left_alone(self):
        dump = self.run_code("""
            ms.set_context(mode=ms.GRAPH_MODE)
            add = mint.add
            debugger.start()
            assert mint.add is add
            debugger.stop(); debugger.step()
        """, level="L1")
        self.assertIn("GRAPH_MODE", dump.output)

    def test_seeds_reach_mindspore_and_dropout_keeps_everything(self):
        self.run_code("""
            seed_all(7, mode=True)
            assert ms.get_seed() == 7 and ms.get_context("deterministic") == "ON"
            assert os.environ["PYTHONHASHSEED"] == "7"
            x = ones(3)
            for result in (F.dropout(x, 0.3), ops.dropout(x, p=0.9), nn.Dropout()(x)):
                assert result.asnumpy().tolist() == [1.0, 1.0, 1.0]
            for wrong in (lambda: F.dropout(x, p=2), lambda: seed_all(-1), lambda: seed_all(1, 2)):
                try:
                    wrong()
                except ValueError:
                    continue
                raise AssertionError("accepted")
        """)

    def test_a_torch_over_mindspore_keeps_its_names(self):
        prologue = PROLOGUE.replace("from msprobe.mindspore", """
import types
torch = types.ModuleType("torch")
class TorchTensor(Tensor): pass
class Module:
    def __init__(self): self._parameters = {}
    def __call__(self, *args): return self.forward(*args)
    def named_modules(self):
        yield "", self
        for name, item in vars(self).items():
            if isinstance(item, Module): yield name, item
torch.Tensor, torch.relu = TorchTensor, (lambda x: ops.relu(x))
torch.nn = types.SimpleNamespace(Module=Module, functional=types.SimpleNamespace())
sys.modules["torch"] = torch
from msprobe.mindspore""", 1)
        dump = self.run_code("""
            class Inner(Module):
                def forward(self, x): return torch.relu(x)
            class Outer(Module):
                def __init__(self): super().__init__(); self.inner = Inner()
                def forward(self, x): return self.inner(x)
            model = Outer()
            debugger.start(model)
            model(torch.Tensor(np.ones(2, "float32")))
            debugger.stop(); debugger.step()
        """, prologue=prologue)
        self.assertEqual(dump.load("dump.json")["framework"], "mindtorch")
        self.assertEqual(dump.names(), ["Torch.relu.0.forward", "Module.inner.Inner.forward.0"])


if __name__ == "__main__":
    unittest.main()
