#!/usr/bin/env python3
"""Simulated trainings with a fault built in; msprobe nan_analyze must name it every time.

usage: nan_random_test.py MSPROBE [FIRST_SEED [COUNT]]

A training is a little machine that runs: ranks = data x pipeline x tensor groups, tensors are sets of bad kinds (NaN, inf, -inf)
that real operators would hand on, a scheduler runs the ranks as processes that block in receives and collectives. Micro batches
go through the pipeline in 1F1B order, forward and backward; tensor groups and data groups use every collective there is. Among
the good operators stand all the things that look bad and are not: masks of -inf, buffers that hold garbage before they are
filled, uninitialised memory, fills by constants, in-place operators, bad values inside nested lists, backward entries of
modules, parameters_grad entries at the place of the forward. The fault is put into one call of one rank; what the dump then says
follows from the run alone, so that the truth does not depend on how anybody searches.

Every wrong answer is printed with its seed; `nan_random_test.py MSPROBE SEED 1` runs it again and keeps its dump.
"""
import json
import random
import subprocess
import sys
import tempfile
from collections import defaultdict, deque
from pathlib import Path

NAN, PLUS, MINUS = "nan", "inf", "-inf"
SEEDS, FIRST_SEED = 520, 1
FORWARD_CALLS = ["Functional.linear", "Torch.matmul", "Functional.gelu", "Tensor.__add__", "Functional.layer_norm", "Torch.cat",
                 "Tensor.mul_", "Torch.chunk", "Tensor.__truediv__", "Torch.exp", "Functional.dropout", "Torch.sqrt", "Tensor.add_"]


def non_finite(kind, rng):
    """One of the spellings that dumps use."""
    bare = {NAN: float("nan"), PLUS: float("inf"), MINUS: float("-inf")}[kind]
    return rng.choice([bare, bare, bare, kind, kind.upper(), kind + "\t"])


class Tensor:
    """What a dump knows of a tensor: which kinds of bad values are in it."""

    def __init__(self, bad=(), mask=False):
        self.bad = frozenset(bad)
        self.mask = mask  # its -inf is a mask's

    def describe(self, rng):
        top, low = rng.uniform(0.5, 3), rng.uniform(-3, 0.2)
        if NAN in self.bad:
            top = low = non_finite(NAN, rng)
        else:
            if PLUS in self.bad:
                top = non_finite(PLUS, rng)
            if MINUS in self.bad:
                low = non_finite(MINUS, rng)
                if self.mask and rng.random() < 0.5:
                    top = 0.0
        return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 8], "Max": top, "Min": low, "Mean": 0.5,
                "Norm": 2.0, "requires_grad": False}


def poison(*tensors):
    """What an ordinary operator makes of its inputs: infinities may turn into NaN, nothing gets better."""
    bad = set().union(*[tensor.bad for tensor in tensors])
    return Tensor({NAN} if NAN in bad else bad)


class Rank:
    def __init__(self, world, number):
        self.world, self.number = world, number
        self.rng = random.Random(world.seed * 1009 + number)
        self.data, self.construct, self.counts, self.modules = {}, {}, defaultdict(int), []

    def name(self, api, direction="forward"):
        count = self.counts[api, direction]
        self.counts[api, direction] += 1
        return "%s.%d.%s" % (api, count, direction)

    def shape(self, value):
        if isinstance(value, Tensor):
            return value.describe(self.rng)
        if isinstance(value, (list, tuple)):
            return [self.shape(item) for item in value]
        if isinstance(value, dict):
            return {key: self.shape(item) for key, item in value.items()}
        if isinstance(value, Group):
            return {"type": "torch.ProcessGroup", "group_ranks": value.ranks, "group_id": "0"}
        if isinstance(value, bool) or value is None or isinstance(value, str):
            return None if value is None else {"type": type(value).__name__, "value": value}
        return {"type": type(value).__name__, "value": value}

    def record(self, name, args, kwargs, output):
        entry = {"input_args": self.shape(args), "input_kwargs": self.shape(kwargs), "is_recompute": False,
                 "output": self.shape(output)}
        self.data[name] = entry
        self.construct[name] = self.modules[-1] if self.modules else None

    def is_fault(self, *place):
        """Whether the fault of this training is here. Notes the places that could have it."""
        self.world.places.append(place)
        return self.world.fault == place

    # -- operators

    def compute(self, x, done):
        """One operator; `done` takes its name, for the backward pass."""
        api = self.rng.choice(FORWARD_CALLS)
        name = self.name(api)
        weight = Tensor()
        if api == "Functional.linear" and self.is_fault("weight", self.number, name):
            weight = Tensor(self.world.fault_kind)
        if api == "Torch.cat":
            parts = [x, Tensor()]
            self.rng.shuffle(parts)
            args = [[parts] if self.rng.random() < 0.5 else parts]
        elif api == "Functional.linear":
            args = [x, weight, Tensor()]
        elif api == "Tensor.__truediv__" and self.rng.random() < 0.5:
            args = [x, 2.0]
        else:
            args = [x, Tensor()] if self.rng.random() < 0.5 else [x]
        out = poison(x, weight)
        if self.is_fault("call", self.number, name) and not out.bad:
            out = Tensor(self.world.fault_kind)
        spread = api == "Torch.chunk"
        kwargs = {"dim": -1} if spread else {}
        if self.rng.random() < 0.1:
            kwargs["out"] = Tensor({NAN})  # a buffer: whatever lay in memory
        self.record(name, args, kwargs, [[out, out]] if spread else [out])
        if api == "Functional.linear" and self.world.linear_modules:
            self.linear_module(name, x, weight, out)
        done.append(name)
        return out

    def linear_module(self, call, x, weight, out):
        """The module around one call, with its weights."""
        name = "Module.fc%d.Linear.forward.0" % self.counts["fc", "module"]
        self.counts["fc", "module"] += 1
        self.construct[name], self.construct[call] = self.construct[call], name
        self.data[name] = {"input_args": self.shape([x]), "input_kwargs": {}, "output": self.shape([out]),
                           "parameters": self.shape({"weight": weight}), "is_recompute": False}

    def backward_of(self, forward_name, g):
        name = forward_name.replace(".forward", ".backward")
        out = poison(g)
        if self.is_fault("call", self.number, name) and not out.bad:
            out = Tensor(self.world.fault_kind)
        self.data[name] = {"input": self.shape([g]), "output": self.shape([out, None])}
        self.construct[name] = None
        return out

    def recompute(self, names):
        """Activation checkpointing: the same calls once more, under new numbers."""
        for name in names:
            entry = json.loads(json.dumps(self.data[name]))
            entry["is_recompute"] = True
            for section in ("input_args", "output"):
                for item in entry[section]:
                    if isinstance(item, dict) and "requires_grad" in item:
                        item["requires_grad"] = True
            again = self.name(name.rsplit(".", 2)[0])
            self.data[again], self.construct[again] = entry, None

    def module(self, path, run, x):
        """A module around calls; its entry stands behind them, or in front where dumps say so."""
        name = "Module.%s.forward.%d" % (path, self.counts[path, "module"])
        self.counts[path, "module"] += 1
        self.construct[name] = self.modules[-1] if self.modules else None
        if self.world.modules_first:
            self.data[name] = None
        self.modules.append(name)
        out = yield from run(x)
        self.modules.pop()
        self.data[name] = {"input_args": self.shape([x]), "input_kwargs": {}, "output": self.shape([out]), "parameters": {},
                           "is_recompute": False}
        grads = name.split(".forward")[0] + ".parameters_grad"
        self.data.setdefault(grads, {"weight": [None]})
        return out

    def masked_attention(self, x):
        """softmax(x + mask): -inf comes and goes again."""
        way = self.rng.randrange(6)
        masked = Tensor(set(x.bad) | {MINUS}, mask=True) if NAN not in x.bad else x
        if way == 0:
            self.record(self.name("Tensor.masked_fill"), [x, Tensor(), float("-inf")], {}, [masked])
        elif way == 1:
            mask = Tensor({MINUS}, mask=True)
            self.record(self.name("Torch.full"), [[8, 8], float("-inf")], {}, [mask])
            self.record(self.name("Torch.triu"), [mask], {"diagonal": 1}, [mask])
            self.record(self.name("Tensor.__add__"), [x, mask], {}, [masked])
        elif way == 2:
            self.record(self.name("Torch.where"), [Tensor(), x, float("-inf")], {}, [masked])
        elif way == 3:
            lowest = Tensor().describe(self.rng)
            lowest.update(Max=0.0, Min=-3.4028234663852886e+38)
            name = self.name("Tensor.__add__")
            self.record(name, [x], {}, [masked])
            self.data[name]["input_args"].append(lowest)
        elif way == 4:
            self.record(self.name("Tensor.masked_fill_"), [x, Tensor()], {"value": float("-inf")}, [masked])
        else:
            mask = Tensor({MINUS}, mask=True).describe(self.rng)
            mask["Max"] = 0.0
            name = self.name("Functional.scaled_dot_product_attention")
            self.record(name, [x, x, x], {}, [poison(x)])
            self.data[name]["input_kwargs"]["attn_mask"] = mask
            return poison(x)
        name = self.name("Functional.softmax")
        out = Tensor(x.bad - {MINUS}) if x.bad != {MINUS} else Tensor({NAN})
        if self.is_fault("call", self.number, name) and not out.bad and not x.bad:
            out = Tensor({NAN})  # a row that is masked as a whole
        self.record(name, [masked], {"dim": -1}, [out])
        return out

    def noise(self):
        """Calls whose bad values mean nothing."""
        way = self.rng.randrange(5)
        garbage = Tensor({self.rng.choice([NAN, PLUS])})
        if way == 0:
            self.record(self.name(self.rng.choice(["Torch.empty", "Torch.empty_like", "Tensor.new_empty"])), [[2, 8]], {}, [garbage])
            self.record(self.name("Tensor.copy_"), [garbage, Tensor()], {}, [Tensor()])
        elif way == 1:
            self.record(self.name("Torch.empty"), [[2, 8]], {}, [garbage])
            self.record(self.name("Tensor.normal_"), [garbage], {}, [Tensor()])
        elif way == 2:
            entry = Tensor({}).describe(self.rng)
            entry["Mean"] = float("nan")
            name = self.name("Torch.mean")
            self.record(name, [Tensor()], {}, [])
            self.data[name]["output"] = [entry]
        elif way == 3:
            self.record(self.name("Distributed.barrier"), [], {}, [])
        else:
            self.record(self.name("Torch.topk"), [Tensor(), 2], {"largest": True}, [[Tensor(), Tensor()]])

    # -- communication: generators that yield while they wait

    def send(self, to, x):
        name = self.name("Distributed.isend" if self.rng.random() < 0.4 else "Distributed.send")
        positional = self.rng.random() < 0.5
        self.record(name, [x, to] if positional else [x], {} if positional else {"dst": to}, [x])
        self.world.mail[self.number, to].append(x)

    def start_receive(self, source):
        name = self.name("Distributed.irecv" if self.rng.random() < 0.4 else "Distributed.recv")
        buffer = Tensor(self.rng.choice([(), {NAN}, {PLUS}]))
        positional = self.rng.random() < 0.5
        self.record(name, [buffer, source] if positional else [buffer], {} if positional else {"src": source}, [])
        return name

    def end_receive(self, source, name):
        mail = self.world.mail[source, self.number]
        while not mail:
            yield
        x = mail.popleft()
        broken = self.is_fault("transfer", source, self.number, name)
        x = Tensor(self.world.fault_kind) if broken and not x.bad else x
        self.data[name]["output"] = self.shape([x])
        return x

    def receive(self, source):
        return (yield from self.end_receive(source, self.start_receive(source)))

    def exchange(self, peer, x):
        """Sends and receives at once, in one of the ways in which pipelines do it."""
        way = self.rng.randrange(3)
        if way == 0:
            self.send(peer, x)
            return (yield from self.receive(peer))
        if way == 1:  # the receive is posted first
            name = self.start_receive(peer)
            self.send(peer, x)
            return (yield from self.end_receive(peer, name))
        name = self.name("Distributed.batch_isend_irecv")
        order = [("isend", x), ("irecv", Tensor({NAN} if self.rng.random() < 0.5 else ()))]
        self.rng.shuffle(order)

        def describe(pairs):
            return [{"class_type": "torch.distributed.P2POp", "tensor": tensor.describe(self.rng), "op": op, "peer": peer,
                     "tag": 0, "group_id": "0"} for op, tensor in pairs]

        self.record(name, [], {}, [])
        self.data[name]["input_args"] = [describe(order)]
        self.world.mail[self.number, peer].append(x)
        mail = self.world.mail[peer, self.number]
        while not mail:
            yield
        got = mail.popleft()
        self.data[name]["output"] = [describe([(op, x if op == "isend" else got) for op, _ in order])]
        return got

    def collective(self, ranks, api, x):
        """One call of a group, all members of which call the same."""
        size = len(ranks)
        if size == 1:
            return x
        number = self.counts[tuple(ranks), "collective"]
        self.counts[tuple(ranks), "collective"] += 1
        group = Group(ranks)
        root = ranks[number % size]
        local = ranks.index(root)  # may be told instead, where no rank of the group has that number
        told_root = local if self.world.local_roots and local not in ranks else root
        garbage = Tensor(self.rng.choice([(), {NAN}, {PLUS, MINUS}]))
        name = self.name("Distributed." + api)
        kwargs = {"group": group} if size < self.world.size or self.rng.random() < 0.5 else {}
        if api in ("all_reduce", "reduce"):
            args = [x]
        elif api == "all_gather":
            args = [[garbage] * size, x]
        elif api in ("reduce_scatter", "all_to_all"):
            args = [garbage if api == "reduce_scatter" else [garbage] * size, [x] * size]
        elif api == "broadcast":
            args = [x if self.number == root else garbage]
        elif api == "gather":
            args = [x, [garbage] * size if self.number == root else None]
        elif api == "scatter":
            args = [garbage, [x] * size if self.number == root else None]
        else:
            args = [garbage, x]
        if api == "broadcast" and self.rng.random() < 0.5:
            args.append(told_root)
        elif api in ("broadcast", "scatter"):
            kwargs["src"] = told_root
        elif api in ("reduce", "gather"):
            kwargs["dst"] = told_root
        elif api == "all_gather_into_tensor" and self.rng.random() < 0.5:
            kwargs["output_tensor"] = args.pop(0)
        self.record(name, args, kwargs, [])
        table = self.world.tables[tuple(ranks), number]
        table[self.number] = x
        while len(table) < size:
            yield
        sources = [table[root]] if api in ("broadcast", "scatter") else list(table.values())
        out = poison(*sources)
        if self.is_fault("collective", tuple(ranks), number) and not out.bad:
            out = Tensor(self.world.fault_kind)
            self.world.broken_calls.append((self.number, name))
        if api in ("reduce", "gather") and self.number != root:
            out = x
        if api == "gather":
            after = [x, [out] * size if self.number == root else None]
        elif api == "scatter":
            after = [out, args[1]]
        elif api in ("all_reduce", "reduce", "broadcast"):
            after = [out]
        elif api == "all_gather":
            after = [[out] * size, x]
        else:
            after = [out, x]
        self.data[name]["output"] = self.shape(after)
        return out

    # -- the program of a rank

    def layer(self, number, done):
        def run(x):
            for _ in range(self.rng.randint(1, 3)):
                x = self.compute(x, done)
            if self.rng.random() < 0.3:
                x = self.masked_attention(x)
            if self.rng.random() < 0.3:
                self.noise()
            api = self.world.api_of(self.tensor_group, self.counts[tuple(self.tensor_group), "collective"])
            x = yield from self.collective(self.tensor_group, api, x)
            return self.compute(x, done)

        def outer(x):
            return (yield from self.module("layers.%d.mlp.MLP" % number, run, x))

        return outer

    def forward(self, x):
        done = []
        for number in range(self.world.layers):
            x = yield from self.module("layers.%d.Block" % number, self.layer(number, done), x)
        self.saved.append(done)
        return x

    def backward(self, g):
        done = self.saved.popleft()
        if self.world.recomputes:
            self.recompute(done)
        for name in reversed(done):
            g = self.backward_of(name, g)
        return g

    def program(self):
        world = self.world
        previous, following = self.neighbour(-1), self.neighbour(1)

        def receive_forward():
            return (yield from self.receive(previous)) if previous is not None else Tensor()

        def receive_backward(y):
            return (yield from self.receive(following)) if following is not None else Tensor({NAN} if y.bad else ())

        self.record(self.name("Torch.embedding"), [Tensor(), Tensor()], {}, [Tensor()])
        warm_up = min(world.stages - 1 - self.stage, world.micro_batches)
        outputs = deque()
        for _ in range(warm_up):
            x = yield from receive_forward()
            outputs.append((yield from self.forward(x)))
            self.send(following, outputs[-1])
        steady = world.micro_batches - warm_up
        x = (yield from receive_forward()) if steady else None
        for number in range(steady):
            y = yield from self.forward(x)
            outputs.append(y)
            oldest = outputs.popleft()
            g = (yield from self.exchange(following, y)) if following is not None else (yield from receive_backward(oldest))
            g = self.backward(g)
            last = number == steady - 1
            if previous is None:
                x = Tensor()
            elif last:
                self.send(previous, g)
            else:
                x = yield from self.exchange(previous, g)
        for _ in range(warm_up):
            g = self.backward((yield from receive_backward(outputs.popleft())))
            if previous is not None:
                self.send(previous, g)
        total = g
        for _ in range(2):
            api = world.api_of(self.data_group, self.counts[tuple(self.data_group), "collective"])
            total = yield from self.collective(self.data_group, api, total)
        everyone = list(range(world.size))
        api = world.api_of(everyone, self.counts[tuple(everyone), "collective"])
        total = yield from self.collective(everyone, api, total)
        self.compute(total, [])
        for entry_name, entry in self.data.items():
            if entry_name.endswith(".parameters_grad") and total.bad:
                entry["weight"] = self.shape([total])

    def neighbour(self, step):
        stage = self.stage + step
        return self.world.rank_at(self.replica, stage, self.shard) if 0 <= stage < self.world.stages else None


class Group:
    def __init__(self, ranks):
        self.ranks = ranks


COLLECTIVES = ["all_reduce", "all_gather", "all_gather_into_tensor", "_all_gather_base", "reduce_scatter", "reduce_scatter_tensor",
               "_reduce_scatter_base", "all_to_all", "all_to_all_single", "broadcast", "reduce", "gather", "scatter"]


class World:
    """A whole training step of all ranks."""

    def __init__(self, seed, fault=None):
        self.seed, self.fault = seed, fault
        rng = random.Random(seed)
        self.replicas, self.stages, self.shards = rng.choice([1, 2, 3]), rng.choice([1, 2, 3, 4]), rng.choice([1, 2])
        self.size = self.replicas * self.stages * self.shards
        self.micro_batches, self.layers = rng.randint(1, 4), rng.randint(1, 2)
        self.modules_first, self.recomputes, self.linear_modules = rng.random() < 0.3, rng.random() < 0.3, rng.random() < 0.5
        self.local_roots = rng.random() < 0.3
        self.fault_kind = frozenset(rng.choice([{NAN}, {NAN}, {PLUS}, {MINUS}, {PLUS, MINUS}]))
        self.places, self.broken_calls = [], []
        self.mail, self.tables = defaultdict(deque), defaultdict(dict)
        self.ranks = [Rank(self, number) for number in range(self.size)]
        for rank in self.ranks:
            rank.replica, rest = divmod(rank.number, self.stages * self.shards)
            rank.stage, rank.shard = divmod(rest, self.shards)
            rank.tensor_group = [self.rank_at(rank.replica, rank.stage, shard) for shard in range(self.shards)]
            rank.data_group = [self.rank_at(replica, rank.stage, rank.shard) for replica in range(self.replicas)]
            rank.saved = deque()

    def rank_at(self, replica, stage, shard):
        return (replica * self.stages + stage) * self.shards + shard

    def api_of(self, group, number):
        return random.Random("%d %s %d" % (self.seed, group, number)).choice(COLLECTIVES)

    def run(self):
        programs = [rank.program() for rank in self.ranks]
        order = random.Random(self.seed + 77)
        for _ in range(1000000):
            if not programs:
                return self
            program = order.choice(programs)
            try:
                next(program)
            except StopIteration:
                programs.remove(program)
        raise AssertionError("the simulated training hangs: seed %d" % self.seed)

    def write(self, folder):
        for rank in self.ranks:
            place = folder / ("rank%d" % rank.number)
            place.mkdir(parents=True)
            dump = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None, "data": rank.data}
            (place / "dump.json").write_text(json.dumps(dump, indent=rank.rng.choice([1, 2, None])))
            (place / "construct.json").write_text(json.dumps(rank.construct))
            (place / "stack.json").write_text(json.dumps({}))


def truth_of(world):
    """The truth of a world: acceptable answers as (rank, operator), and of which kind they must be."""
    kind = world.fault[0]
    if kind == "collective":
        return world.broken_calls, "communication"
    if kind == "transfer":
        source, target, name = world.fault[1:]
        return [(target, name)], "communication"
    if kind == "weight":
        return [world.fault[1:]], "external_input" if world.linear_modules else "external_input or unrecorded"
    return [world.fault[1:]], "computed or masked_row"


def check(msprobe, seed, folder):
    """A sentence about what is wrong, or None."""
    clean = World(seed).run()
    rng = random.Random(seed * 31)
    kinds = sorted({place[0] for place in clean.places})
    nothing = rng.random() < 0.06
    kind = rng.choice([element for element in kinds for _ in range(6 if element == "call" else 1)])
    fault = None if nothing else rng.choice([place for place in clean.places if place[0] == kind])
    world = World(seed, fault).run()
    world.write(folder / "step0")
    command = [msprobe, "nan_analyze", "-i", str(folder / "step0"), "-o", str(folder / "out"), "--format", "json"]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False)
    if ended.returncode != 0:
        return "exit status %d: %s" % (ended.returncode, ended.stderr.decode())
    answer = json.loads(ended.stdout.decode())
    found = [(element["rank"], element["op_name"], element["kind"]) for element in answer["origins"] if element["reported"]]
    if nothing:
        return None if answer["outcome"] == "good" else "found %s where nothing is wrong" % found
    accepted, expected_kind = truth_of(world)
    if len(found) == 1 and found[0][:2] in accepted and found[0][2] in expected_kind.split(" or "):
        return None
    return "fault %s, %s (%s) expected: found %s" % (fault, accepted, expected_kind, found)


def main():
    msprobe = str(Path(sys.argv[1]).resolve())
    first = int(sys.argv[2]) if len(sys.argv) > 2 else FIRST_SEED
    count = int(sys.argv[3]) if len(sys.argv) > 3 else SEEDS
    wrong = 0
    for seed in range(first, first + count):
        if count == 1:
            folder = Path(tempfile.mkdtemp(prefix="msprobe_nan_"))
            complaint = check(msprobe, seed, folder)
            print("dump: %s" % folder)
        else:
            with tempfile.TemporaryDirectory(prefix="msprobe_nan_") as scratch:
                complaint = check(msprobe, seed, Path(scratch))
        if complaint is not None:
            wrong += 1
            print("seed %d: %s" % (seed, complaint))
    print("%d of %d trainings right" % (count - wrong, count))
    return 0 if wrong == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
