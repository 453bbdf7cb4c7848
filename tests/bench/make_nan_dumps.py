#!/usr/bin/env python3
"""Makes a step of a statistics dump of many ranks, for tests/bench/nan_bench.sh.

usage: make_nan_dumps.py FOLDER --ranks N [--operators N] [--poisoned]

Each rank has --operators entries (default 2000), written as Python's json.dump with indent 1 writes them. Every tenth is a
collective: eight ranks make a tensor group, the others of their kind a data group. With --poisoned one rank makes a NaN after a
tenth of its operators, and everything behind it is NaN; without, all is good.
"""
import argparse
import json
from pathlib import Path


def tensor(maximum, minimum):
    return {"type": "torch.Tensor", "dtype": "torch.bfloat16", "shape": [4096, 1, 1024], "Max": maximum, "Min": minimum,
            "Mean": 0.000732421875, "Norm": 1816.3817138671875, "requires_grad": True}


def entry(bad_input, bad_output, group):
    good = (4.34375, -4.21875)
    bad = (float("nan"), float("nan"))
    inputs = [tensor(*(bad if bad_input else good)), tensor(*good)]
    kwargs = {}
    if group is not None:
        inputs = inputs[:1]
        kwargs = {"group": {"type": "torch.ProcessGroup", "group_ranks": group, "group_id": "77849d8c"}}
    return {"input_args": inputs, "input_kwargs": kwargs, "is_recompute": False,
            "output": [tensor(*(bad if bad_output else good))]}


def body(value):
    """The entry as it stands inside "data", two levels deep."""
    return json.dumps(value, indent=1).replace("\n", "\n  ")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", type=int, required=True)
    parser.add_argument("--operators", type=int, default=2000)
    parser.add_argument("--poisoned", action="store_true")
    given = parser.parse_args()
    source = given.ranks // 2
    for rank in range(given.ranks):
        tensor_group = list(range(rank // 8 * 8, min(rank // 8 * 8 + 8, given.ranks)))
        data_group = list(range(rank % 8, given.ranks, 8))
        texts, poisoned = {}, False
        folder = given.folder / "step0" / ("rank%d" % rank)
        folder.mkdir(parents=True, exist_ok=True)
        with open(folder / "dump.json", "w", encoding="utf-8") as file:
            file.write('{\n "task": "statistics",\n "level": "L1",\n "framework": "pytorch",\n "dump_data_dir": null,\n "data": {\n')
            for number in range(given.operators):
                group = None if number % 10 != 9 else tensor_group if number % 20 == 9 else data_group
                name = "Functional.linear" if group is None else "Distributed.all_reduce"
                origin = given.poisoned and rank == source and number == given.operators // 10 + 1
                before = poisoned
                if given.poisoned and number >= given.operators // 10 + 1:
                    # The tensor group is reached by the first collective behind the origin, all by the next one.
                    first, second = given.operators // 10 + 9, given.operators // 10 + 19
                    poisoned = (poisoned or origin or (number >= first and rank // 8 == source // 8) or
                                (number >= second and (rank % 8 == source % 8 or rank // 8 == source // 8)) or number >= second + 10)
                key = (before, poisoned, None if group is None else number % 20)
                if key not in texts:
                    texts[key] = body(entry(before, poisoned, group))
                file.write('  "%s.%d.forward": %s%s\n' % (name, number, texts[key], "," if number + 1 < given.operators else ""))
            file.write(" }\n}")
        (folder / "construct.json").write_text("{}")
        (folder / "stack.json").write_text("{}")


if __name__ == "__main__":
    main()
