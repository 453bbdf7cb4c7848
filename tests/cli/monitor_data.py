"""Monitored runs for tests of what reads them: written as the spec of the files says, without any of our code.

A run is small to describe: names with a rule for their numbers. Faults (a drift, NaN, infinity) are put where a test looks for them.
"""
import json
import math
import random
from pathlib import Path

PARTS = ("attention.qkv", "attention.dense", "mlp.fc1", "mlp.fc2", "norm")
HOOKS = {"attention_hook": ("entropy", "softmax_max"), "linear_hook": ("sr", "kernel_norm")}
OPS = ("norm", "min", "max", "mean", "zeros", "nans")


def spell(value):
    """A number as the monitor writes it."""
    if isinstance(value, float) and math.isfinite(value):
        return repr(round(value, 6))
    return str(value)


class Run:
    """`drift`: (module, first step), its norm grows from there. `poison`: (module, rank, step), +Inf there and NaN behind it.
    `burst`: (table, step), all modules are 50 times larger there. `never`: a module that is NaN in every row. `absent`: one that never had a tensor. `scale`: of all norms."""

    def __init__(self, modules=60, steps=200, ranks=4, seed=1, tables=("actv", "grad_reduced"), drift=(37, 120), poison=(47, 3, 160),
                 names=None, alerts=True,
                 burst=None, never=None, absent=None, scale=1.0):
        self.modules, self.steps, self.ranks, self.seed, self.tables = modules, steps, ranks, seed, tables
        self.drift, self.poison, self.alerts = drift, poison, alerts
        self.burst, self.never, self.absent, self.scale = burst, never, absent, scale
        self.names = names or ["layers.%d.%s" % (i // len(PARTS), PARTS[i % len(PARTS)]) for i in range(modules)]

    def values(self, table, module, rank, step, generator):
        level = self.scale * (1.0 + (module * 37 % 100) / 10.0)
        norm = level * (1 + 0.3 * math.exp(-step / 30.0)) * (1 + 0.02 * generator.gauss(0, 1))
        if self.burst == (table, step):
            norm *= 50
        if module in (self.never, self.absent):
            return (math.nan,) * 6
        if self.drift and module == self.drift[0] and step >= self.drift[1]:
            norm *= 1 + 0.1 * (step - self.drift[1]) * (1 + rank)
        if self.poison and table == self.tables[0] and module == self.poison[0] and rank == self.poison[1] and step >= self.poison[2]:
            bad = math.inf if step == self.poison[2] else math.nan
            return (bad, bad, bad, bad, 0.0, 7)
        return (norm, -norm * 0.3, norm * 0.4, norm * generator.gauss(0, 0.001), 0.001, 0)

    def write(self, folder):
        """Writes all ranks below `folder`; returns {(table, name, rank, step): norm as text}."""
        truth = {}
        for rank in range(self.ranks):
            generator = random.Random(self.seed * 1000 + rank)
            place = Path(folder) / ("Nov21_09-58-35-rank%d-1a197c9%x" % (rank, rank % 16))
            place.mkdir(parents=True)
            for table in self.tables:
                micro = table.startswith("actv")
                lines = ["vpp_stage,name,step%s,%s,shape,dtype" % (",micro_step" if micro else "", ",".join(OPS))]
                for step in range(self.steps):
                    for module, name in enumerate(self.names):
                        suffix = ".output" if micro else ".weight"
                        texts = [spell(value) for value in self.values(table, module, rank, step, generator)]
                        truth[table, name + suffix, rank, step] = texts[0]
                        cell = name + suffix
                        cell = '"%s"' % cell.replace('"', '""') if any(c in cell for c in ',"') else cell
                        what = "nan,nan" if module == self.absent else '"[2, 4]",torch.float32'
                        lines.append("0,%s,%d%s,%s,%s" % (cell, step, ",0" if micro else "", ",".join(texts), what))
                (place / ("%s_0-%d.csv" % (table, self.steps - 1))).write_text("\n".join(lines) + "\n")
            if self.alerts and self.drift:
                self.write_alerts(Path(folder), rank)
        return truth

    def write_hooks(self, folder):
        """Tables without `norm`, for the same ranks and steps: {(table, name, rank, step): its first statistic as text}."""
        truth = {}
        for place in sorted(Path(folder).glob("*-rank*")):
            rank = int(place.name.split("-rank")[1].split("-")[0])
            generator = random.Random(self.seed * 1000 + 500 + rank)
            for table, ops in HOOKS.items():
                lines = ["vpp_stage,name,step," + ",".join(ops)]
                for step in range(self.steps):
                    for layer in range(4):
                        name = "layers.%d.core" % layer
                        texts = [spell(1 + generator.random()) for _ in ops]
                        truth[table, name, rank, step] = texts[0]
                        lines.append("0,%s,%d,%s" % (name, step, ",".join(texts)))
                (place / ("%s_0-%d.csv" % (table, self.steps - 1))).write_text("\n".join(lines) + "\n")
        return truth

    def write_alerts(self, folder, rank):
        entries = {}
        name, table = self.names[self.drift[0]], self.tables[0]
        for step in range(self.drift[1] + 2, self.steps, 10):
            tag = "0:%s.output:0/rank%d/%s" % (name, rank, table)
            entries["%s_step_%d_call_1" % (tag, step)] = {
                "rank": rank, "step": step, "micro_step": 0, "pp_stage": 0, "vpp_stage": 0, "call_id": 1, "tag_name": tag,
                "message": "Rule AnomalyTurbulence reports anomaly signal in ('%s', 'norm') at step %d, current value 9.5, history mean 1.2."
                           % (tag, step), "group_mates": [0]}
        place = folder / "anomaly_detected" / ("rank%d" % rank)
        place.mkdir(parents=True)
        (place / "anomaly.json").write_text(json.dumps(entries, indent=1))
