"""layout.json: what each rank holds of the model, as the capture finds it. What is expected follows from how the test cuts its tensors."""
import os
import sys
import textwrap
import unittest

try:
    import torch
    import torch.distributed
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)
if not torch.distributed.is_available():
    print("PyTorch comes without torch.distributed: skipped")
    sys.exit(77)

from distributed_test import EPILOGUE, PROLOGUE
from shim_case import ShimCase

# Debian's PyTorch 1.13 has neither of them that could be imported.
HAS_DTENSOR = int(torch.__version__.split(".")[0]) >= 2 and hasattr(torch.distributed, "device_mesh")

MODELS = """
class Block(nn.Module):
    def __init__(self, parts=1):
        super().__init__()
        self.norm, self.fc1, self.fc2 = nn.LayerNorm(8), nn.Linear(8, 16 // parts), nn.Linear(16 // parts, 8)

    def forward(self, x):
        return x + self.fc2(torch.relu(self.fc1(self.norm(x))))

class Net(nn.Module):
    def __init__(self, parts=1, blocks=2):
        super().__init__()
        self.layers = nn.ModuleList([Block(parts) for _ in range(blocks)])
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)

def cut(parameter, dimension):
    parameter.tensor_model_parallel, parameter.partition_dim, parameter.partition_stride = True, dimension, 1

def step(debugger, model, times=1):
    for _ in range(times):
        debugger.start(model=model)
        outermost = model if not isinstance(model, list) else model[0]
        outermost(torch.ones(2, 8)).sum().backward()
        debugger.stop(); debugger.step()
"""


class Layouts(ShimCase):
    maxDiff = None

    def run_one(self, code, **options):
        return self.run_code(MODELS + textwrap.dedent(code), **options)

    def run_two(self, code, **options):
        return self.run_code(MODELS + textwrap.dedent(code) + EPILOGUE, prologue=PROLOGUE, **options)

    def layout(self, dump, rank, step=0):
        return dump.load("layout.json", step, rank)

    # ---- files ----

    def test_one_process_has_all_of_everything(self):
        dump = self.run_one("step(debugger, Net())", level="mix")
        layout = self.layout(dump, "rank")
        self.assertEqual((layout["schema_version"], layout["rank"], layout["world_size"], layout["groups"]), (1, 0, 1, {}))
        self.assertEqual(layout["parameters"]["layers.1.fc1.weight"], {"kind": "replicated", "global_shape": [16, 8]})
        self.assertEqual(len(layout["parameters"]), 14)
        for absent in ("layers", "experts", "process_groups", "batch"):
            self.assertNotIn(absent, layout)

    def test_every_step_has_it_and_they_share_the_bytes(self):
        dump = self.run_one("step(debugger, Net(), times=3)", level="L0")
        numbers = {os.stat(dump.path("step%d" % number, "rank", "layout.json")).st_ino for number in range(3)}
        self.assertEqual(len(numbers), 1)

    def test_another_model_makes_another_layout(self):
        dump = self.run_one("""
            step(debugger, Net())
            step(debugger, Net(blocks=3))
        """, level="L0")
        self.assertNotIn("layers.2.norm.bias", self.layout(dump, "rank")["parameters"])
        self.assertTrue(any(name.endswith("layers.2.norm.bias") for name in self.layout(dump, "rank", 1)["parameters"]))

    def test_apis_alone_have_one_too(self):
        dump = self.run_one("""
            debugger.start()
            torch.abs(torch.ones(1))
            debugger.stop(); debugger.step()
        """, level="L1")
        self.assertEqual(self.layout(dump, "rank"), {"schema_version": 1, "rank": 0, "world_size": 1, "groups": {}, "parameters": {}})

    def test_paths_are_those_of_the_rows(self):
        dump = self.run_one("step(debugger, [Net(), Net()])", level="L0")
        layout = self.layout(dump, "rank")
        self.assertIn("Module.0.layers.0.fc1.Linear.forward.0", dump.names())
        self.assertIn("0.layers.0.fc1.weight", layout["parameters"])
        self.assertEqual(layout["layers"], {"0": "", "1": ""})

    # ---- groups and parameters ----

    def test_replicas_of_data_parallelism(self):
        dump = self.run_two("""
            def work(rank, debugger):
                join(rank)
                step(debugger, nn.parallel.DistributedDataParallel(Net()))
        """, level="mix")
        for rank in (0, 1):
            layout = self.layout(dump, "rank%d" % rank)
            self.assertEqual((layout["rank"], layout["world_size"], layout["groups"]), (rank, 2, {"dp": [0, 1]}))
            self.assertEqual(layout["batch"], {"part": rank, "parts": 2})
            self.assertEqual(layout["optimizer"], {"gradient_reduction": "mean"})
            self.assertEqual(layout["parameters"]["module.head.weight"], {"kind": "replicated", "group": "dp", "global_shape": [4, 8]})
            self.assertEqual(layout["layers"], {"module": ""})

    def test_groups_that_nobody_names_are_told_without_a_kind(self):
        dump = self.run_two("""
            def work(rank, debugger):
                join(rank)
                mine = [dist.new_group([one]) for one in (0, 1)][rank]
                step(debugger, Net())
        """, level="L0")
        layout = self.layout(dump, "rank1")
        self.assertEqual(layout["groups"], {})
        self.assertEqual(layout["process_groups"], [[0, 1], [1]])
        self.assertEqual(layout["parameters"], {})

    def test_attributes_of_parameters_tell_how_they_are_cut(self):
        dump = self.run_two("""
            def work(rank, debugger):
                join(rank)
                model = Net(parts=2)
                for layer in model.layers:
                    cut(layer.fc1.weight, 0); cut(layer.fc1.bias, 0); cut(layer.fc2.weight, 1)
                    layer.fc1.output_size = layer.fc2.input_size = 16  # the whole, as Megatron's layers have it
                    layer.norm.weight.sequence_parallel = True
                model.layers[0].fc1.weight.partition_stride = 2
                step(debugger, model)
        """, level="L0")
        for rank in (0, 1):
            layout = self.layout(dump, "rank%d" % rank)
            parameters = layout["parameters"]
            self.assertEqual(layout["groups"], {"tp": [0, 1]})
            place = {"part": rank, "parts": 2, "group": "tp"}
            self.assertEqual(parameters["layers.1.fc1.weight"], dict(place, kind="shard", dim=0, global_shape=[16, 8]))
            self.assertEqual(parameters["layers.1.fc2.weight"], dict(place, kind="shard", dim=1, global_shape=[8, 16]))
            self.assertEqual(parameters["layers.0.fc1.weight"],
                             dict(place, kind="shard", dim=0, global_shape=[16, 8], stride=2, blocks=[8, 8]))
            self.assertEqual(parameters["layers.0.norm.weight"],
                             {"kind": "replicated", "global_shape": [8], "sequence_parallel": True})
            self.assertEqual(parameters["layers.0.fc2.bias"], {"kind": "replicated", "global_shape": [8]})

    def test_the_group_of_a_cut_is_that_of_its_module(self):
        dump = self.run_two("""
            def work(rank, debugger):
                join(rank)
                groups = [dist.new_group([0, 1]), dist.new_group([0, 1])]
                model = Net()
                model.head.weight.tensor_model_parallel, model.head.weight.partition_dim = True, 0
                model.head.tp_group = groups[1]
                step(debugger, nn.parallel.DistributedDataParallel(model, process_group=groups[0]))
        """, level="L0")
        layout = self.layout(dump, "rank0")
        self.assertEqual(layout["groups"], {"dp": [0, 1], "tp": [0, 1]})
        self.assertEqual(layout["parameters"]["module.head.weight"]["kind"], "shard")
        self.assertEqual(layout["parameters"]["module.head.bias"]["kind"], "replicated")

    def test_the_mark_of_a_cut_alone_says_no_more_than_the_dimension(self):
        code = """
            def work(rank, debugger):
                join(rank)
                model = Net()
                cut(model.head.weight, 0)  # also where one rank has all of it
                step(debugger, model)
        """
        layout = self.layout(self.run_two(code, level="L0"), "rank0")
        self.assertEqual(layout["groups"], {})
        self.assertEqual(layout["parameters"]["head.weight"], {"kind": "shard", "dim": 0, "group": "tp"})
        dump = self.run_one("""
            model = Net()
            cut(model.head.weight, 0)
            step(debugger, model)
        """, level="L0")
        self.assertEqual(self.layout(dump, "rank")["parameters"]["head.weight"], {"kind": "replicated", "global_shape": [4, 8]})

    def test_an_unknown_group_leaves_the_part_out(self):
        dump = self.run_two("""
            def work(rank, debugger):
                join(rank)
                model = Net()
                cut(model.head.weight, 0)
                step(debugger, nn.parallel.DistributedDataParallel(model))  # the only group is that of the data
        """, level="L0")
        self.assertEqual(self.layout(dump, "rank0")["parameters"]["module.head.weight"], {"kind": "shard", "dim": 0, "group": "tp"})

    def test_the_page_shows_what_a_run_writes(self):
        dump = self.run_two("""
            class Stage(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.norm = nn.LayerNorm(8)
                    self.fc1, self.fc2 = nn.Linear(8, 16), nn.Linear(16, 8, bias=False)
                    cut(self.fc1.weight, 0); cut(self.fc1.bias, 0); cut(self.fc2.weight, 1)
                    self.fc1.weight.partition_stride = self.fc1.bias.partition_stride = 2
                    self.fc1.output_size = self.fc2.input_size = 32
                    self.norm.weight.sequence_parallel = True
                    self.layer_number = 3

                def forward(self, x):
                    return self.fc2(torch.relu(self.fc1(self.norm(x))))

            def work(rank, debugger):
                join(rank)
                step(debugger, nn.Sequential(Stage()))
        """, level="mix")
        with open(dump.path("step0", "rank1", "layout.json"), encoding="utf-8") as file:
            written = file.read()
        page = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "docs", "formats", "layout_json.md")
        with open(page, encoding="utf-8") as file:
            shown = file.read().split("```json\n")[1].split("```")[0]
        self.assertEqual(shown, written)

    # ---- names ----

    def test_layers_and_experts_have_global_numbers(self):
        dump = self.run_one("""
            model = Net()
            for index, layer in enumerate(model.layers):
                layer.layer_number = 5 + index  # counted from 1, as Megatron does
                layer.experts = nn.Module()
                layer.experts.local_experts = nn.ModuleList([nn.Linear(8, 8), nn.Linear(8, 8)])
                layer.num_local_experts, layer.local_expert_indices = 2, [2, 3]
            step(debugger, model)
        """, level="L0")
        layout = self.layout(dump, "rank")
        self.assertEqual(layout["layers"], {"layers.0": "layers.4", "layers.1": "layers.5"})
        self.assertEqual(layout["experts"], {"layers.%d.experts.local_experts.%d" % (layer, expert): expert + 2
                                             for layer in (0, 1) for expert in (0, 1)})

    # ---- harm ----

    def test_what_cannot_be_read_is_left_out_and_said_once(self):
        dump = self.run_one("""
            class Odd(nn.Linear):
                @property
                def layer_number(self): raise RuntimeError("never asked")
                def __getattr__(self, name):
                    assert name in ("weight", "bias") or name.startswith("_"), name
                    return super().__getattr__(name)
            model = Net()
            model.layers[0].fc1 = Odd(8, 16)
            model.layers[1].local_expert_indices = ["none"]
            step(debugger, model, times=2)
        """, level="L0")
        self.assertEqual(len(self.layout(dump, "rank")["parameters"]), 14)
        self.assertEqual(dump.output.count("layout.json is not complete: names of modules: ValueError: invalid literal"), 1)

    @unittest.skipUnless(HAS_DTENSOR, "this PyTorch has no DTensor")
    def test_placements_of_dtensors(self):
        dump = self.run_two("""
            def work(rank, debugger):
                join(rank)
                from torch.distributed.device_mesh import init_device_mesh
                from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
                mesh = init_device_mesh("cpu", (2,))
                model = Net()
                for layer in model.layers:
                    parallelize_module(layer, mesh, {"fc1": ColwiseParallel(), "fc2": RowwiseParallel()})
                step(debugger, model)
        """, level="mix")
        for rank in (0, 1):
            layout = self.layout(dump, "rank%d" % rank)
            self.assertEqual(layout["groups"], {"tp": [0, 1]})
            place = {"kind": "shard", "part": rank, "parts": 2, "group": "tp"}
            self.assertEqual(layout["parameters"]["layers.1.fc1.weight"], dict(place, dim=0, global_shape=[16, 8]))
            self.assertEqual(layout["parameters"]["layers.1.fc2.weight"], dict(place, dim=1, global_shape=[8, 16]))
            self.assertEqual(layout["parameters"]["layers.1.fc2.bias"]["kind"], "replicated")
            self.assertEqual(layout["parameters"]["head.weight"]["kind"], "replicated")

    @unittest.skipUnless(HAS_DTENSOR, "this PyTorch has no FSDP2")
    def test_shards_of_fsdp2(self):
        dump = self.run_two("""
            def work(rank, debugger):
                join(rank)
                from torch.distributed.fsdp import fully_shard
                model = Net()
                for layer in model.layers: fully_shard(layer)
                fully_shard(model)
                debugger.start(model=model)
                model(torch.ones(2, 8)).sum()  # no backward: the root's parameters are whole at the moment
                debugger.stop(); debugger.step()
        """, level="mix")
        layout = self.layout(dump, "rank1")
        self.assertEqual(layout["groups"], {"fsdp": [0, 1], "dp": [0, 1]})
        self.assertEqual(layout["parameters"]["head.weight"],
                         {"kind": "shard", "dim": 0, "part": 1, "parts": 2, "group": "fsdp", "global_shape": [4, 8]})
        self.assertEqual(len(layout["parameters"]), 14)


if __name__ == "__main__":
    unittest.main(verbosity=2)
