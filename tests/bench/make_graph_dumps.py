#!/usr/bin/env python3
"""Makes two statistics dumps of level mix that part in one layer, for tests/bench/graph_bench.sh.

usage: make_graph_dumps.py FOLDER --nodes N [--ranks N]

FOLDER/npu and FOLDER/bench hold --nodes nodes per side, shared by the ranks: blocks of twelve calls, their module forward and
backward, and with several ranks an all_reduce of all of them per block. From the sixth block on, the last eight calls and the module
of the npu side are 30 % off. Stacks are shared by all calls, as the capture groups them.
"""
import argparse
import json
import random
from pathlib import Path

CALLS = ["Functional.linear", "Torch.matmul", "Functional.softmax", "Tensor.__add__", "Functional.dropout", "Functional.layer_norm"]
LINES = ["File /home/user/project/model/transformer.py, line %d, in forward, \n x = self.layer(x)" % line for line in range(100, 106)]


def tensor(chance, shape, scale, factor=1.0):
    most = chance.uniform(0.5, 1.5) * scale * factor
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": shape, "Max": most, "Min": -most * 0.9, "Mean": most * 0.01,
            "Norm": most * 17.3, "requires_grad": True}


def write_rank(folder, nodes, rank, ranks, is_npu):
    folder.mkdir(parents=True)
    chance = random.Random(rank)
    data, construct, stacked = {}, {}, []
    counts = dict.fromkeys(CALLS, 0)

    def add(name, parent, is_off, group=None):
        inputs = [tensor(chance, [4, 128, 512], 1), tensor(chance, [512, 512], 0.1)]
        keywords = {"inplace": {"type": "bool", "value": False}}
        if group is not None:
            inputs, keywords = inputs[:1], {"group": {"type": "torch.ProcessGroup", "group_ranks": group, "group_id": "77849d8c"}}
        output = [tensor(chance, [4, 128, 512], 1, 1.3 if is_off else 1.0)]
        if ".backward." in name:
            data[name] = {"input": inputs, "output": output}
        else:
            data[name] = {"input_args": inputs, "input_kwargs": keywords, "output": output}
            stacked.append(name)
        construct[name] = parent

    layer = 0
    while len(data) < nodes:
        module = "Module.layers.%d.Block.forward.0" % layer
        is_off = is_npu and layer >= 5
        for place in range(12):
            call = CALLS[place % len(CALLS)]
            add("%s.%d.forward" % (call, counts[call]), module, is_off and place > 3)
            counts[call] += 1
        if ranks > 1:
            add("Distributed.all_reduce.%d.forward" % layer, module, is_off, list(range(ranks)))
        add(module, None, is_off)
        add(module.replace("forward", "backward"), None, is_off)
        layer += 1
    header = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None, "data": data}
    for name, value in (("dump", header), ("construct", construct), ("stack", {"0": [stacked, LINES]})):
        (folder / (name + ".json")).write_text(json.dumps(value))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--ranks", type=int, default=1)
    given = parser.parse_args()
    for side in ("npu", "bench"):
        for rank in range(given.ranks):
            folder = given.folder / side
            write_rank(folder if given.ranks == 1 else folder / ("rank%d" % rank), given.nodes // given.ranks, rank, given.ranks,
                       side == "npu")


main()
