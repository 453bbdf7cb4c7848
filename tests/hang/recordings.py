"""Runs of many ranks that hang, played call by call, and what a Flight Recorder would have kept of them.

A rank's program is a list of calls. A call of a group ends once all members have entered it with the same kind, size and dtype. A rank
goes on without waiting while fewer than `ahead` of its calls are open. A fault changes one rank's program; what follows comes by itself.
"""
import json
import pickle
import random
from pathlib import Path

KINDS = ("all_reduce", "broadcast", "reduce", "all_gather", "_all_gather_base", "_reduce_scatter_base")
DTYPES = ("Float", "BFloat16", "Half", "Int", "Long")
FAULTS = ("none", "slow", "stop", "skip", "type", "size", "dtype", "order", "send", "recv", "no_file")


class Call:
    def __init__(self, group, kind, size, dtype, line, peers=None):
        self.group, self.kind, self.size, self.dtype, self.line, self.peers = group, kind, size, dtype, line, peers

    def copy(self, **changed):
        made = Call(self.group, self.kind, self.size, self.dtype, self.line, self.peers)
        made.__dict__.update(changed)
        return made

    @property
    def key(self):
        return self.kind, self.size, self.dtype


class Run:
    """`groups`: name -> (description, ranks); `programs`: rank -> calls."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.fault = FAULTS[seed % len(FAULTS)]
        parts = self.draw.choice((1, 2, 4))
        replicas = self.draw.choice((2, 3, 4, 8))
        self.world = parts * replicas
        self.groups = {"0": ("default_pg", list(range(self.world)))}
        if parts > 1:
            for replica in range(replicas):
                self.add_group("tp", [replica * parts + part for part in range(parts)])
        for part in range(parts if parts > 1 else 0):
            self.add_group("dp", [replica * parts + part for replica in range(replicas)])
        self.ahead = self.draw.choice((1, 1, 2, 4))
        self.programs = self.make_programs()
        self.absent = None
        self.expected = self.plant()
        self.play()
        self.correct_expected()

    def correct_expected(self):
        """What a fault comes to, now that the run has been played."""
        if self.absent is None and all(ended for entries in self.entered.values() for _, _, ended in entries) and \
                all(len(self.entered[rank]) == len(self.programs[rank]) for rank in range(self.world)):
            self.expected = "NO HANG", None  # nobody had to wait
        elif self.fault == "skip":
            kind, rank, group, sequence = self.expected[1]
            if not any(call.group == group and number == sequence for number, call, _ in self.entered[rank]):
                # It waits elsewhere, in a call that the others do not come to: nothing tells this from calls in another order.
                self.expected = "HANG", ("missing order", rank, None, None)

    def add_group(self, what, ranks):
        self.groups[str(len(self.groups))] = ("%s%d" % (what, len(self.groups)), ranks)

    def make_programs(self):
        """Steps of a training: some collectives in each group, sends between neighbours."""
        programs = {rank: [] for rank in range(self.world)}
        line = 100
        for _ in range(self.draw.randint(3, 8)):
            for kind in ("tp", "dp", "default_pg"):
                for _ in range(self.draw.randint(0, 2)):
                    line += 1
                    call = self.draw.choice(KINDS), self.draw.choice((4, 64, 1000, 4096)), self.draw.choice(DTYPES)
                    for name, (description, ranks) in self.groups.items():
                        if description.startswith(kind):
                            for rank in ranks:
                                programs[rank].append(Call(name, *call, line))
            line += 1
            for rank in range(0, self.world - 1, 2):
                if self.fault in ("send", "recv"):
                    programs[rank].append(Call("0", "send", 32, "Float", line, (rank, rank + 1)))
                    programs[rank + 1].append(Call("0", "recv", 32, "Float", line, (rank, rank + 1)))
        for rank in range(self.world):  # the last step ends with the loss of all
            programs[rank].append(Call("0", "all_reduce", 1, "Float", line + 1))
        return programs

    def plant(self):
        """The word, and the kind, ranks, group and sequence number of the first row; None: not told."""
        if self.fault in ("none", "slow"):
            return "NO HANG", None
        if self.fault in ("send", "recv"):
            rank = self.draw.randrange(0, self.world - 1, 2) + (self.fault == "recv")
            places = [at for at, call in enumerate(self.programs[rank]) if call.kind == self.fault]
            del self.programs[rank][self.draw.choice(places):]
            return "HANG", ("missing", rank, None, None)
        rank = self.draw.randrange(self.world)
        program = self.programs[rank]
        if self.fault == "no_file":
            self.absent = rank
            at = self.draw.randrange(len(program))
            del program[at:]
            return "HANG", ("no_file", rank, None, None)
        places = [at for at, call in enumerate(program) if self.members(call) > 2] or list(range(len(program)))
        at = self.draw.choice(places)
        call = program[at]
        sequence = sum(other.group == call.group for other in program[:at]) + 1
        others = [kind for kind in KINDS if kind != call.kind]
        if self.fault == "stop":
            del program[at:]
            return "HANG", ("missing", rank, call.group, sequence)
        if self.fault == "type":
            program[at] = call.copy(kind=self.draw.choice(others), line=7)
        elif self.fault == "size":
            program[at] = call.copy(size=call.size * 2 + 2, line=7)
        elif self.fault == "dtype":
            program[at] = call.copy(dtype="Double", line=7)
        elif self.fault == "skip":
            later = [other for other in program[at + 1:] if other.group == call.group]
            del program[at]
            place, following = sequence, call
            for after in later:  # the first one that differs from what the others do there
                if after.key != following.key:
                    kind = ("type", "size", "dtype")[[a == b for a, b in zip(after.key, following.key)].index(False)]
                    return "MISMATCH", (kind, rank, call.group, place)
                place, following = place + 1, after
            return "HANG", ("missing", rank, call.group, place)
        elif self.fault == "order":
            pairs = [at for at in range(len(program) - 1)
                     if program[at].group != program[at + 1].group and self.members(program[at + 1]) > 1]
            if not pairs or self.world < 3:
                self.fault = "none"
                return "NO HANG", None
            at = self.draw.choice(pairs)
            self.ahead = 1
            program[at], program[at + 1] = program[at + 1], program[at]
            return "HANG", ("order missing", rank, None, None)
        return "MISMATCH", (self.fault, rank, call.group, sequence)

    def members(self, call):
        return len(self.groups[call.group][1])

    def play(self):
        self.entered = {rank: [] for rank in range(self.world)}  # [sequence, call, ended]
        numbers = {rank: {} for rank in range(self.world)}
        at = {rank: 0 for rank in range(self.world)}
        slots = {}
        moved = True
        while moved:
            moved = False
            for rank in range(self.world):
                while at[rank] < len(self.programs[rank]):
                    if sum(not entry[2] for entry in self.entered[rank]) >= self.ahead:
                        break
                    call = self.programs[rank][at[rank]]
                    at[rank] += 1
                    counter = (call.group, call.peers is not None)
                    numbers[rank][counter] = numbers[rank].get(counter, 0) + 1
                    entry = [numbers[rank][counter], call, False]
                    self.entered[rank].append(entry)
                    if call.peers is None:
                        slot, need = (call.group, entry[0]), self.members(call)
                    else:
                        passed = sum(other[1].peers == call.peers for other in self.entered[rank])
                        slot, need = (call.group, call.peers, passed), 2
                    slots.setdefault(slot, []).append(entry)
                    if self.fault == "slow" and call is self.programs[rank][-1]:
                        need = self.world + 1
                    same = {other[1].key for other in slots[slot]} if call.peers is None else {0}
                    if len(slots[slot]) == need and len(same) == 1:
                        for other in slots[slot]:
                            other[2] = True
                    moved = True

    # ---- what the recorder of a rank holds ----

    @staticmethod
    def sizes(call):
        gathered, scattered = "gather" in call.kind, "scatter" in call.kind
        return [[call.size]], [[call.size * (2 if gathered else 1) // (2 if scattered else 1)]]

    def recording(self, rank, style):
        entries = []
        for record, (sequence, call, ended) in enumerate(self.entered[rank]):
            inputs, outputs = self.sizes(call)
            name = "%s:%s" % (style["backend"], call.kind)
            if call.peers:
                name += " %d->%d" % call.peers if call.kind == "send" else " %d<-%d" % (call.peers[1], call.peers[0])
            entry = {"record_id": record, "pg_id": int(call.group),
                     "process_group": (call.group, self.groups[call.group][0] if style["described"] else "undefined"),
                     "collective_seq_id": sequence if not call.peers else 0, "p2p_seq_id": sequence if call.peers else 0, "op_id": record + 1,
                     "profiling_name": name, "time_created_ns": 1700000000000000000 + record, "input_sizes": inputs,
                     "input_dtypes": [call.dtype], "output_sizes": outputs, "output_dtypes": [call.dtype],
                     "state": "completed" if ended else ("started" if record % 2 else "scheduled"),
                     "time_discovered_started_ns": None, "time_discovered_completed_ns": 1700000000000000009 if ended else None,
                     "retired": ended, "timeout_ms": 600000, "is_p2p": call.peers is not None}
            if style["form"] != "json":
                entry["frames"] = [
                    {"name": "wrapper", "filename": "/opt/lib/python3.11/site-packages/torch/distributed/c10d_logger.py", "line": 83},
                    {"name": "step", "filename": "/home/user/trainer.py", "line": call.line}]
            entries.append(entry)
        lost = max(0, len(entries) - style["ring"])
        config = {name: {"name": name, "desc": description, "ranks": json.dumps(ranks)}
                  for name, (description, ranks) in self.groups.items() if rank in ranks}
        return {"version": "2.10", "pg_config": config if style["configured"] else {"": {"name": "", "desc": "", "ranks": "[]"}},
                "pg_status": {name: {"last_enqueued_collective": sum(e[1].group == name and not e[1].peers for e in self.entered[rank]),
                                     "last_started_collective": -1,
                                     "last_completed_collective": sum(e[1].group == name and e[2] and not e[1].peers
                                                                      for e in self.entered[rank])}
                              for name, (_, ranks) in self.groups.items() if rank in ranks},
                "entries": entries[lost:]}

    def write(self, folder):
        """Files of all ranks, in a form, under names and with a ring that the seed draws."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        form = self.draw.choice(("pickle", "pickle", "json"))
        style = {"form": form, "backend": self.draw.choice(("nccl", "gloo", "hccl")), "described": self.draw.random() < 0.8,
                 "configured": self.fault == "no_file" or self.draw.random() < 0.8, "ring": self.draw.choice((2000, 2000, 16))}
        if any(not ended for entries in self.entered.values() for _, _, ended in entries[:-16]):
            style["ring"] = 2000  # what a ring has dropped nobody can tell
        name = self.draw.choice(("nccl_trace_rank_%d", "rank%d", "fr_%d", "trace_20260101_%d", "host%d_dump"))
        for rank in range(self.world):
            if rank == self.absent:
                continue
            made = self.recording(rank, style)
            if form == "json":
                (folder / (name % rank + ".json")).write_text(json.dumps(made))
            else:
                data = pickle.dumps(made, protocol=self.draw.randint(0, 5))
                (folder / (name % rank + self.draw.choice(("", ".pickle")))).write_bytes(data)
        return style
