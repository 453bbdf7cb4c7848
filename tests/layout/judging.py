"""Asks `msprobe compare` about a pair of layouts and holds its answer against the truth. Needs no PyTorch."""
import csv
import json
import os
import re

import scoring  # of ../diagnosis

OTHER_WORDS = {"missing call": "unmatched call", "extra call": "unmatched call", "unmatched": "unmatched call"}


def global_path(told, path):
    """A module path of a rank under its global name; `told` is what the rank told (layers, experts)."""
    rest = ""
    for local, number in told["experts"].items():
        if path == local or path.startswith(local + "."):
            rest, path = ".%d%s" % (number, path[len(local):]), local.rpartition(".")[0]
            break
    for local in sorted(told["layers"], key=len, reverse=True):
        if path == local or path.startswith(local + "."):
            path = told["layers"][local] + path[len(local):]
            break
    return path + rest


class Constructs:
    """Which module a call belongs to, as the dumps of one side tell."""

    def __init__(self, folder, ranks):
        self.folder, self.ranks, self._read = folder, ranks, {}

    def enclosing(self, step, call):
        """Global paths of the innermost modules around `call`, of all ranks."""
        found = set()
        for rank, told in enumerate(self.ranks):
            name = "rank%d" % rank if len(self.ranks) > 1 else "rank"
            key = (step, rank)
            if key not in self._read:
                path = os.path.join(self.folder, "dump", "step%d" % step, name, "construct.json")
                self._read[key] = json.load(open(path)) if os.path.exists(path) else {}
            parent = self._read[key].get(call)
            parent = parent[0] if isinstance(parent, (list, tuple)) and parent else parent
            match = re.match(r"Module\.(.+)\.\w+\.(forward|backward)", parent or "")
            if match:
                found.add(global_path(told, match.group(1)))
        return found


class Answer:
    """What summary.json names first."""

    def __init__(self, summary, constructs):
        self.pairs = summary["pairs"]
        index = summary.get("first_divergence_pair")
        self.pair = self.pairs[index] if index is not None else None
        self.point = self.pair["first_divergence"] if self.pair else None
        self.named = self.point is not None
        self.step = self.pair["step"] if self.pair else None
        if not self.named:
            self.kind = self.relation = self.factor = self.call = self.row = None
            self.ranks, self.places = [], set()
            return
        self.call, self.row = self.point["call"], self.point.get("row") or ""
        self.kind = OTHER_WORDS.get(self.point["kind"], self.point["kind"])
        relation = self.point.get("relation")
        self.relation, self.factor = (relation["kind"], relation.get("factor")) if relation else (None, None)
        self.ranks = sorted(self.point.get("ranks") or [])
        self.places = places_of(self.call, self.row, self.kind, self.step, constructs)


def places_of(call, row, kind, step, constructs):
    """Everything that a call and row may be said to be: "forward PATH", "parameter PATH.weight", ..."""
    match = re.match(r"Module\.(.+)\.\w+\.(forward|backward|parameters_grad)(\.reduced)?", call)
    if match:
        paths, direction = {match.group(1)}, match.group(2)
        if constructs:
            paths |= {global_path(told, match.group(1)) for told in constructs[-1].ranks}
    else:
        paths = set()
        for construct in constructs:
            paths |= construct.enclosing(step, call)
        direction = "backward" if ".backward" in call else "forward"
    paths = {re.sub(r"^module\.", "", path) for path in paths}
    if direction == "parameters_grad":
        name = row.rpartition(".")[2]
        return {"gradient %s.%s" % (path, name) for path in paths}
    found = {"%s %s" % (direction, path) for path in paths}
    if ".parameters." in row:
        found |= {"parameter %s.%s" % (path, row.rpartition(".")[2]) for path in paths}
    elif kind in ("parameter", "replica", "optimizer") and direction == "forward":
        found |= {"parameter %s.?" % path for path in paths}
    return found


def module_of(place):
    """The module path of a place of a truth."""
    direction, path = place.split(" ", 1)
    return path.rpartition(".")[0] if direction in ("parameter", "gradient") else path


def is_at(place, wanted):
    if wanted.endswith("*"):
        return place.startswith(wanted[:-1])
    return place == wanted or place.endswith(".?") and wanted.rpartition(".")[0] == place[:-2]


def judge(told, answer):
    """"right", or what is wrong first: "nothing named", "gradient factor", "step", "place", "kind", "relation", "factor", "ranks"."""
    truth = told["truth"]
    if truth["gradient_factor"] is not None:
        return _judge_factor(truth, answer)
    if not answer.named:
        return "nothing named"
    if answer.step != truth["step"]:
        return "step"
    if not any(is_at(place, wanted) for place in answer.places for wanted in truth["places"]):
        return "place"
    if answer.kind not in truth["kinds"]:
        return "kind"
    if "any" not in truth["relations"]:
        if answer.relation not in truth["relations"]:
            return "relation"
        if truth["factor"] is not None and answer.relation in ("scale", "reduced_twice") and not (
                answer.factor is not None and abs(answer.factor / truth["factor"] - 1) < 0.02):
            return "factor"
    return "right" if _same_ranks(told, answer) else "ranks"


def gradient_factors(answer):
    found = []
    for pair in answer.pairs:
        layout = pair.get("layout") or {}
        for part in (pair, layout, layout.get("npu") or {}, layout.get("bench") or {}):
            if part.get("gradient_factor") is not None:
                found.append(part["gradient_factor"])
    return found


def _judge_factor(truth, answer):
    wanted = truth["gradient_factor"]
    if not any(abs(factor / wanted - 1) < 0.02 or abs(factor * wanted - 1) < 0.02 for factor in gradient_factors(answer) if factor):
        return "gradient factor"
    return "right" if not answer.named or answer.step > 0 else "place"


def _same_ranks(told, answer):
    """Equal, where "none given" stands for all that hold the row."""
    layout = (answer.pair.get("layout") or {}).get("npu") or {}
    inside = set(layout.get("ranks") or range(len(told["npu_ranks"])))
    holders = _holders(told, answer) & inside or inside
    wanted = set(told["truth"]["ranks"] or holders) & holders
    given = set(answer.ranks or holders)
    if answer.kind == "replica" and holders <= given:
        return True  # of equal numbers of replicas it can't be told which is wrong
    return given == wanted or not told["truth"]["ranks"] and wanted <= given


def _holders(told, answer):
    found = set()
    # A call's number is another call's on another stage: only what is at the place of the truth counts.
    places = [place for place in answer.places if any(is_at(place, wanted) for wanted in told["truth"]["places"])] or answer.places
    for rank, rank_told in enumerate(told["npu_ranks"]):
        paths = {global_path(rank_told, name.rpartition(".")[0]) for name in rank_told["parameters"]}
        for place in places:
            path = place.split(" ", 1)[1]
            if path in paths or any(other.startswith(path + ".") for other in paths) or path.rpartition(".")[0] in paths:
                found.add(rank)
    return found


# ---- the layout of each logical parameter ----


def expected_layout(told, side, path, ranks):
    """The parts of the column's text for a parameter, from how the generator cut it."""
    setup = told[side]
    sizes = [(axis, setup.get(axis, 1)) for axis in ("tp", "cp", "dp", "pp")]
    holders = [rank for rank in ranks if any(
        global_path(told[side + "_ranks"][rank], name.rpartition(".")[0]) + "." + name.rpartition(".")[2] == path
        for name in told[side + "_ranks"][rank]["parameters"])]
    if not holders:
        return {"no rank has it"}
    dim, blocks = told["placements"][side].get(path, (None, 1))
    parts = min(setup.get("tp", 1), len(holders)) if dim is not None else 1
    found = set()
    if parts > 1:
        found.add("shard dim %d x%d%s" % (dim, parts, " blocks %d" % blocks if blocks > 1 else ""))
    if len(holders) // parts > 1:
        found.add("replicated x%d" % (len(holders) // parts))
    if dict(sizes)["pp"] > 1:
        place = holders[0]
        for axis, count in sizes[:-1]:
            place //= count
        found.add("stage %d" % place)
    if len(holders) == 1 and len(ranks) > 1 and dict(sizes)["pp"] == 1:
        found.add("rank %d" % holders[0])
    other = told["bench" if side == "npu" else "npu"]
    if path in ("embedding.word_embeddings.weight", "output_layer.weight") and setup.get("table", 0) > other.get("table", 0):
        found = (found or {"whole"}) | {"padded to %d" % setup["table"]}
    return found or {"whole"}


def judge_layouts(told, summary, folder):
    """[(side, row, expected, given)] of parameters in the tables of all pairs."""
    found = []
    for pair in summary["pairs"]:
        layout = pair.get("layout") or {}
        table = next((name for name in pair["files"] if name.endswith(".csv")), None)
        if table is None:
            continue
        table = table if os.path.isabs(table) else os.path.join(folder, table)
        with open(table, newline="") as file:
            for row in csv.DictReader(file):
                match = re.match(r"Module\.(?:module\.)?(.+)\.\w+\.forward\.0\.parameters\.(\w+)$", row.get("Bench Name") or "")
                if not match or "NPU Layout" not in row:
                    continue
                path = "%s.%s" % match.groups()
                for side, column in (("npu", "NPU Layout"), ("bench", "Bench Layout")):
                    ranks = (layout.get(side) or {}).get("ranks") or list(range(len(told[side + "_ranks"])))
                    given, expected = set(row[column].split(" + ")), expected_layout(told, side, path, ranks)
                    if told["npu"]["task"] == "statistics" and told["record"] != "generator" and not any("blocks" in part for part in given):
                        expected = {part.partition(" blocks")[0] for part in expected}  # four numbers do not show blocks
                    if not any(part.startswith("padded") for part in expected):  # of equal tables nobody can tell
                        given = {part for part in given if not part.startswith("padded")} or {"whole"}
                    found.append((side, path, expected, given))
    return found


def ask(msprobe, pair, side, out, *more):
    """(exit code, summary, Answer) about `side` against the bench."""
    exit_code, summary = scoring.ask_for_summary(msprobe, pair.side(side), pair.side("bench"), out, *more)
    constructs = [Constructs(pair.side(name), pair.told[name + "_ranks"]) for name in ("bench", side) if name + "_ranks" in pair.told]
    return exit_code, summary, Answer(summary, constructs)
