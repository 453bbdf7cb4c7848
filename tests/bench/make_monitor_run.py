#!/usr/bin/env python3
"""Writes a monitored run of any size, as `msprobe monitor` and the Python tool write it.

usage: make_monitor_run.py OUTPUT_DIR [--rows N] [--modules N] [--ranks N] [--steps-per-file N] [--seed N] [--spike]

OUTPUT_DIR gets one folder per rank with the tables actv, actv_grad, grad_unreduced, grad_reduced, exp_avg,
exp_avg_sq, param_origin and param_updated. Values are a slow random walk per name, so that a report has
curves to draw and no compressor has it too easy; the same arguments give the same files.
"""
import argparse
import json
import os
import random

TABLES = {
    "actv": ("input", "output"),
    "actv_grad": ("input", "output"),
    "grad_unreduced": ("weight",),
    "grad_reduced": ("weight",),
    "exp_avg": ("weight",),
    "exp_avg_sq": ("weight",),
    "param_origin": ("weight",),
    "param_updated": ("weight",),
}
OPS = ("norm", "min", "max", "mean", "zeros", "nans")


def names_of(table, modules):
    """The names of one table: layers.<i>.<part> in turn."""
    parts = ("self_attention.query", "self_attention.dense", "mlp.up", "mlp.down", "norm1")
    for module in range(modules):
        stem = "layers.%d.%s" % (module // len(parts), parts[module % len(parts)])
        for kind in TABLES[table]:
            yield "%s.%s" % (stem, kind)


def write_rank(folder, rank, args, steps):
    """One rank's folder; the spike multiplies every gradient behind two thirds of the steps by 50."""
    generator = random.Random(args.seed * 1000 + rank)
    os.makedirs(folder)
    place = {"rank": rank, "world_size": args.ranks, "pipeline_stage": 0, "group_mates": list(range(args.ranks)),
             "tensor_ranks": None, "data_ranks": None}
    with open(os.path.join(folder, "monitor.json"), "w") as out:
        json.dump(place, out)
    for table in TABLES:
        has_micro = table.startswith("actv")
        head = "vpp_stage,name,step%s,%s,shape,dtype\n" % (",micro_step" if has_micro else "", ",".join(OPS))
        names = list(names_of(table, args.modules))
        levels = [generator.uniform(0.01, 30.0) for _ in names]
        for first in range(0, steps, args.steps_per_file):
            last = first + args.steps_per_file - 1
            lines = [head]
            for step in range(first, min(last + 1, steps)):
                factor = 50.0 if args.spike and "grad" in table and step == steps * 2 // 3 else 1.0
                for index, name in enumerate(names):
                    levels[index] *= 1.0 + generator.gauss(0.0, 0.01)
                    norm = levels[index] * factor
                    lines.append("0,%s,%d%s,%r,%r,%r,%r,%r,0,\"[2, 512, 1024]\",torch.bfloat16\n" % (
                        name, step, ",0" if has_micro else "", round(norm, 6), round(-norm * 0.31, 6),
                        round(norm * 0.29, 6), round(norm * generator.gauss(0.0, 0.001), 6),
                        round(generator.random() * 0.01, 6)))
            with open(os.path.join(folder, "%s_%d-%d.csv" % (table, first, last)), "w") as out:
                out.write("".join(lines))


def main():
    """Reads the command line and writes all ranks."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("output")
    parser.add_argument("--rows", type=int, default=1000000, help="about so many rows over all ranks")
    parser.add_argument("--modules", type=int, default=500)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--steps-per-file", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--spike", action="store_true", help="a step with gradients 50 times as large")
    args = parser.parse_args()
    rows_per_step = args.modules * sum(len(kinds) for kinds in TABLES.values()) * args.ranks
    steps = max(1, round(args.rows / rows_per_step))
    for rank in range(args.ranks):
        write_rank(os.path.join(args.output, "Nov21_10-00-%02d-rank%d-%08x" % (rank % 60, rank, rank)), rank, args, steps)
    print("%d rows, %d steps" % (rows_per_step * steps, steps))


if __name__ == "__main__":
    main()
