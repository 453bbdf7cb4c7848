#!/usr/bin/env python3
"""Makes one model as two runs that are cut otherwise, for tests/bench/layouts_bench.sh: statistics, or tensors.

usage: make_layout_dumps.py FOLDER --npu TPxDP --bench TPxDP [--rows N] [--seed S] [--tensors] [--no-records] [--copies N]

FOLDER/npu and FOLDER/bench get step0/rankR with dump.json, construct.json, stack.json and layout.json: TP tensor-parallel ranks of each
of DP replicas of the data, at most eight of each. A layer is attention and an mlp of column and row parallel projections, forward,
backward and the gradients of its parameters, as a capture of level mix has them; --rows is what one rank has. All values of both runs
follow from those of 8 x 8 atoms of each tensor, so that both runs agree. Tensors are .npy files of 64 Ki elements or so. --copies N: N times
as many replicas of the data on the npu side, of which those behind the first are links; what they were given is then not the bench's.
"""
import argparse
import json
import os
from pathlib import Path

import numpy as np

ATOMS = 8
HIDDEN = 64


class Atoms:
    """Statistics of 8 x 8 parts of a tensor: along the batch, and along what tensor parallelism cuts."""

    def __init__(self, chance, elements):
        self.most = chance.uniform(1, 2, (ATOMS, ATOMS))
        self.least = -chance.uniform(1, 2, (ATOMS, ATOMS))
        self.mean = chance.uniform(0.01, 0.05, (ATOMS, ATOMS))
        self.norm = chance.uniform(0.4, 0.6, (ATOMS, ATOMS)) * np.sqrt(elements / ATOMS / ATOMS)

    def of(self, data, tensor):
        at = (data, tensor)
        return (self.most[at].max(), self.least[at].min(), self.mean[at].mean(), float(np.sqrt((self.norm[at] ** 2).sum())))


class Rank:
    def __init__(self, maker, tensor, tensors, data, datas):
        self.maker, self.t, self.ts, self.d, self.ds = maker, tensor, tensors, data, datas
        self.data, self.construct, self.stack, self.parameters = {}, {}, [], {}
        self.rows = 0

    def part(self, place, parts):
        size = ATOMS // parts
        return slice(place * size, (place + 1) * size)

    def tensor(self, key, shape, cut=None, batch=True, partial=False):
        """The row of a tensor of this whole `shape`. `cut`: the dimension that tensor parallelism cuts; partial: a summand of it."""
        own = list(shape)
        if batch:
            own[0] //= self.ds
        if cut is not None:
            own[cut] //= self.ts
        self.rows += 1
        row = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": own}
        if self.maker.tensors:
            values = self.elements(key, shape, cut, batch, partial)
            row.update(Max=float(values.max()), Min=float(values.min()), Mean=float(values.mean(dtype=np.float64)),
                       Norm=float(np.sqrt((values.astype(np.float64) ** 2).sum())))
            return row, values
        atoms = self.maker.atoms(key, int(np.prod(shape)))
        most, least, mean, norm = atoms.of(self.part(self.d, self.ds) if batch else slice(None),
                                           self.part(self.t, self.ts) if cut is not None else slice(None))
        if partial:  # of the tensor ranks: the means add up, nothing else does
            most, least, mean, norm = most * (1 + self.t), least, mean / self.ts, norm * (2 + self.t)
        row.update(Max=most, Min=least, Mean=mean, Norm=norm)
        return row, None

    def elements(self, key, shape, cut, batch, partial):
        values = self.maker.whole(key, shape)
        if batch:
            values = np.split(values, self.ds, 0)[self.d]
        if cut is not None:
            values = np.split(values, self.ts, cut)[self.t]
        if partial:
            values = values / np.float32(self.ts) + np.float32(self.t - (self.ts - 1) / 2)
        return np.ascontiguousarray(values, np.float32)

    def entry(self, name, parent, sections):
        made = {}
        for section, rows in sections.items():
            named = isinstance(rows, dict)
            out = {} if named else []
            for place, (row, values) in (rows.items() if named else enumerate(rows)):
                row["requires_grad"] = True
                if values is not None:
                    row["data_name"] = "%s.%s.%s.npy" % (name, section.replace("_args", ""), place)
                    np.save(self.folder / "dump_tensor_data" / row["data_name"], values)
                if named:
                    out[place] = row
                else:
                    out.append(row)
            made[section] = out
        self.data[name] = made
        self.construct[name] = parent
        if ".forward" in name:
            self.stack.append(name)

    def call(self, name, number, parent, inputs, outputs):
        forward = "%s.%d.forward" % (name, number)
        self.entry(forward, parent + ".forward.0", {"input_args": inputs(""), "input_kwargs": {}, "output": outputs("")})
        return lambda: self.entry("%s.%d.backward" % (name, number), parent + ".backward.0",
                                  {"input": outputs("grad "), "output": inputs("grad ")})

    def layer(self, layer):
        x = [8, 32, HIDDEN]
        wide = [8, 32, 4 * HIDDEN]
        later = []
        block = "Module.layers.%d.Layer" % layer

        def key(text):
            return "%d %s" % (layer, text)

        def projection(path, kind, given, shape_in, made, shape_out, weight):
            column = kind == "ColumnParallelLinear"
            module = "Module.layers.%d.%s.%s" % (layer, path, kind)
            rows = lambda at: [self.tensor(key(at + given), shape_in, None if column else 2)]
            outs = lambda at: [self.tensor(key(at + made), shape_out, 2 if column else None)]
            parts = lambda at: [self.tensor(key(at + made), shape_out, 2 if column else None, partial=not column and self.ts > 1)]
            w = lambda at: self.tensor(key(at + path), weight, 0 if column else 1, batch=False)
            number = self.number
            self.number += 1
            reduces = not column and self.ts > 1 and not self.maker.tensors  # else the summands are not recorded
            back = self.call("Functional.linear", number, module, lambda at: rows(at) + [w(at)], parts if reduces or column else outs)
            if reduces:
                group = {"group": {"type": "torch.ProcessGroup", "group_ranks": self.tp_group, "group_id": "tp%d" % self.d}}
                name = "Distributed.all_reduce.%d.forward" % self.reduced
                self.reduced += 1
                self.rows += 1
                self.entry(name, module + ".forward.0", {"input_args": parts(""), "output": outs("")})
                self.data[name]["input_kwargs"] = group
            self.entry(module + ".forward.0", block + ".forward.0",
                       {"input_args": rows(""), "input_kwargs": {}, "parameters": {"weight": w("")}, "output": outs("")})
            self.parameters["layers.%d.%s.weight" % (layer, path)] = {
                "kind": "shard", "dim": 0 if column else 1, "group": "tp", "part": self.t, "parts": self.ts, "global_shape": weight
            } if self.ts > 1 else {"kind": "replicated", "global_shape": weight}

            def backward():
                back()
                self.entry(module + ".backward.0", block + ".backward.0", {"input": outs("grad "), "output": rows("grad ")})
                gradient = self.tensor(key("weight grad " + path), weight, 0 if column else 1, batch=False)
                self.entry(module + ".parameters_grad", None, {"weight": [gradient]})
            later.append(backward)

        def function(name, inputs, outputs, cut):
            number = self.number
            self.number += 1
            later.append(self.call(name, number, block, lambda at: [self.tensor(key(at + i), s, cut) for i, s in inputs],
                                   lambda at: [self.tensor(key(at + o), s, cut) for o, s in outputs]))

        self.number, self.reduced = layer * 16, layer * 2
        function("Functional.layer_norm", [("x", x)], [("n", x)], None)
        projection("attn.qkv", "ColumnParallelLinear", "n", x, "qkv", wide, [4 * HIDDEN, HIDDEN])
        function("Torch.matmul", [("q", [8, 8, 32, 32]), ("k", [8, 8, 32, 32])], [("s", [8, 8, 32, 32])], 1)
        function("Functional.softmax", [("s", [8, 8, 32, 32])], [("p", [8, 8, 32, 32])], 1)
        function("Torch.matmul", [("p", [8, 8, 32, 32]), ("v", [8, 8, 32, 32])], [("c", [8, 8, 32, 32])], 1)
        projection("attn.proj", "RowParallelLinear", "context", wide, "a", x, [HIDDEN, 4 * HIDDEN])
        function("Tensor.__add__", [("x", x), ("a", x)], [("r", x)], None)
        function("Functional.layer_norm", [("r", x)], [("m", x)], None)
        projection("mlp.fc1", "ColumnParallelLinear", "m", x, "h", wide, [4 * HIDDEN, HIDDEN])
        function("Functional.gelu", [("h", wide)], [("g", wide)], 2)
        projection("mlp.fc2", "RowParallelLinear", "g", wide, "o", x, [HIDDEN, 4 * HIDDEN])
        function("Tensor.__add__", [("r", x), ("o", x)], [("y", x)], None)
        self.entry(block + ".forward.0", None, {"input_args": [self.tensor(key("x"), x)], "input_kwargs": {},
                                               "output": [self.tensor(key("y"), x)]})
        for backward in reversed(later):
            backward()
        self.entry(block + ".backward.0", None, {"input": [self.tensor(key("grad y"), x)], "output": [self.tensor(key("grad x"), x)]})

    def write(self, folder, rank, rows, records):
        self.folder = folder
        (folder / "dump_tensor_data").mkdir(parents=True)
        self.tp_group = [self.d * self.ts + i for i in range(self.ts)]
        self.entry("Functional.embedding.0.forward", None, {"input_args": [self.tokens()], "input_kwargs": {}, "output": [self.tensor("e", [8, 32, HIDDEN])]})
        layer = 0
        while self.rows < rows:
            self.layer(layer)
            layer += 1
        header = {"task": "tensor" if self.maker.tensors else "statistics", "level": "mix", "framework": "pytorch",
                  "dump_data_dir": None, "data": self.data}
        lines = ["File /home/user/project/model.py, line 10, in forward, \n x = self.layer(x)"]
        files = {"dump": header, "construct": self.construct, "stack": {"0": [self.stack, lines]}}
        if records:
            files["layout"] = {"schema_version": 1, "rank": rank, "world_size": self.ts * self.ds,
                               "groups": {"tp": self.tp_group, "dp": [d * self.ts + self.t for d in range(self.ds)]},
                               "parameters": self.parameters}
        for name, value in files.items():
            (folder / (name + ".json")).write_text(json.dumps(value))

    def tokens(self):
        row, values = self.tensor("tokens", [8, 32])
        row["dtype"] = "torch.int64"
        if values is not None:
            values = np.abs(values * 1000).astype(np.int64)
            row.update(Max=int(values.max()), Min=int(values.min()), Mean=float(values.mean()), Norm=float(np.sqrt((values.astype(np.float64) ** 2).sum())))
        else:
            row.update(Max=900, Min=0)
        return row, values


class Maker:
    def __init__(self, seed, tensors):
        self.seed, self.tensors, self.known = seed, tensors, {}

    def chance(self, key):
        return np.random.default_rng([self.seed] + list(key.encode()))

    def atoms(self, key, elements):
        if key not in self.known:
            self.known[key] = Atoms(self.chance(key), elements)
        return self.known[key]

    def whole(self, key, shape):
        if key not in self.known:
            self.known[key] = self.chance(key).standard_normal(shape, np.float32)
        return self.known[key]


def copy(folder, tensors, datas, copies, records):
    """Ranks of more replicas: the files of the first ones, each with a layout of its own."""
    for rank in range(tensors * datas * copies):
        here, first = folder / ("rank%d" % rank), folder / ("rank%d" % (rank % (tensors * datas)))
        here.mkdir(exist_ok=True)
        for name in ("dump.json", "construct.json", "stack.json"):
            if here != first:
                os.link(first / name, here / name)
        if records:
            layout = json.loads((first / "layout.json").read_text())
            layout["rank"], layout["world_size"] = rank, tensors * datas * copies
            layout["groups"] = {"tp": [rank // tensors * tensors + i for i in range(tensors)],
                                "dp": [d * tensors + rank % tensors for d in range(datas * copies)]}
            (here / "layout.json").write_text(json.dumps(layout))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--npu", required=True)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--rows", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--tensors", action="store_true")
    parser.add_argument("--no-records", action="store_true")
    parser.add_argument("--copies", type=int, default=1)
    given = parser.parse_args()
    maker = Maker(given.seed, given.tensors)
    for side in ("npu", "bench"):
        tensors, datas = (int(size) for size in getattr(given, side).split("x"))
        for rank in range(tensors * datas):
            Rank(maker, rank % tensors, tensors, rank // tensors, datas).write(given.folder / side / "step0" / ("rank%d" % rank), rank,
                                                                               given.rows, not given.no_records)
        if side == "npu" and given.copies > 1:
            copy(given.folder / side / "step0", tensors, datas, given.copies, not given.no_records)


main()
