"""What ranks have to compare, as a few numbers for each parameter and step in laws_ranks.bin of this rank's folder.

No rank is asked for anything: `monitor run` and `monitor analyse` join the files (src/analysis/monitor/laws, which also tells how). The
file is a row of blocks, each of two numbers of 4 bytes (kind, length) and its content; kind 1 is JSON with the names that the following
steps go by, kind 2 a step. Numbers are little-endian.

Of a step, for each parameter: digests of the value before and after the update, of the gradient that the optimizer is given, and of its
moments; two sums of the gradient that autograd accumulated here, with weights that are the same everywhere, and the same two of what the
optimizer is given; the absolute sum, which bounds their rounding; flags. Then the clips that were seen, numbers that were added up over
ranks between the backward pass and the update, and collectives whose result can be checked.
"""
import array
import json
import os
import struct
import sys
import zlib

import torch

from msprobe._intercept.collectives import PendingOutputs, StandIn
from msprobe._intercept.runtime import own_work
from msprobe.pytorch import distributed
from msprobe.pytorch.monitor import optimizers
from msprobe.pytorch.monitor.laws.report import plain_name
from msprobe.pytorch.monitor.laws.samples import digest, epsilon, is_plain, local, picked, weights

FILE = "laws_ranks.bin"
_NAMES, _STEP = 1, 2
HAS_GRADIENT, CONSTANT, SHARD, COPY, EXPERT, EVERYWHERE, SUM_KNOWN, EXCEPTED = (1 << bit for bit in range(8))
_WHOLE = 1 << 20      # elements of which every one is read in a step; of larger models another part in each step
_MOST_CALLS = 64      # collectives of a step that are checked
_COLLECTIVES = ("all_reduce", "reduce_scatter_tensor", "_reduce_scatter_base", "all_gather_into_tensor", "_all_gather_base", "all_gather",
                "broadcast", "reduce_scatter", "all_to_all_single", "send", "recv", "isend", "irecv", "batch_isend_irecv")
_ONE_TO_ONE = ("send", "recv", "isend", "irecv", "batch_isend_irecv")
_OPERATIONS = {"SUM": 0, "AVG": 1}


class RankFile:
    def __init__(self, laws):
        self._laws = laws
        self._report = laws.report
        self._wanted = any(self._report.wants(law) for law in ("replica", "reduction", "clip_norm"))
        self._copies = {}      # id of a parameter that DistributedDataParallel keeps equal: ranks
        self._everywhere = set()
        self._file = None
        self._names_of = {}    # part: what was written
        self._groups = {}      # ranks: collectives in this step
        self._scalars = []
        self._calls = []
        self._pairs = 0
        self._squares = None
        self._stand_ins = []
        self._depth = 0
        self._pending = {}
        self._later = PendingOutputs(self._arrived)
        self._exchanged = {}   # name: whether it was equal everywhere at the first exchange

    def watch(self, model):
        for _, module in model.named_modules():
            kind = type(module).__name__
            if kind == "DistributedDataParallel" and hasattr(module, "process_group"):
                ignored = set(getattr(module, "parameters_to_ignore", None) or ())
                ranks = distributed.ranks_of(module.process_group)
                for name, parameter in module.module.named_parameters():
                    if name not in ignored:
                        self._copies[id(parameter)] = ranks
            if "Norm" in kind or "Router" in kind or "Gate" in kind and "Gated" not in kind:
                self._everywhere.update(id(parameter) for parameter in module._parameters.values() if parameter is not None)
        for name, parameter in model.named_parameters():
            parts = name.lower().split(".")
            if "router" in parts or len(parts) > 1 and parts[-2] in ("gate", "wg"):
                self._everywhere.add(id(parameter))

    # ---- collectives ----

    def start(self):
        if not self._wanted or self._stand_ins or distributed.world_size() < 2:
            return
        module = distributed.initialised()
        if module is None:
            return
        holders = (module, sys.modules["torch.distributed.distributed_c10d"])
        self._stand_ins = [one for one in (StandIn.of(name, holders) for name in _COLLECTIVES) if one is not None]
        for stand_in in self._stand_ins:
            stand_in.observe(self)

    def stop(self):
        for stand_in in self._stand_ins:
            stand_in.leave(self)
        self._stand_ins = []
        self._later.remove()
        if self._file is not None:
            self._file.close()
            self._file = None

    def begin(self, name, args, kwargs):
        """For _intercept.collectives."""
        self._depth += 1
        if self._depth == 1:
            self._call = None
            try:
                with torch.no_grad():
                    self._call = self._begin(name, args, kwargs)
            except Exception as error:  # training goes on
                self._laws.monitor.failed("laws of collectives", error)
        return True

    def end(self, name, args, kwargs, result):
        self._depth -= 1
        if self._depth == 0 and self._call is not None:
            try:
                with torch.no_grad():
                    self._end(result)
            except Exception as error:  # training goes on
                self._laws.monitor.failed("laws of collectives", error)

    def failed(self):
        self._depth -= 1

    def _begin(self, name, args, kwargs):
        if name in _ONE_TO_ONE:
            self._pairs += 1
            return None
        tensors = [value for value in tuple(args) + tuple(kwargs.values()) if isinstance(value, torch.Tensor)]
        group = kwargs.get("group")
        if group is None:
            group = next((value for value in args if "ProcessGroup" in type(value).__name__), None)
        ranks = tuple(distributed.ranks_of(group) or range(distributed.world_size())) if group is not None else tuple(range(distributed.world_size()))
        if not tensors or len(ranks) < 2:
            return None
        addresses = self._laws.addresses()
        if tensors[-1].numel() > 1 and tensors[0].data_ptr() not in addresses:
            self._groups[ranks] = self._groups.get(ranks, 0) + 1
        operation = kwargs.get("op")
        if operation is None:
            operation = next((value for value in args if "ReduceOp" in type(value).__name__ or "RedOpType" in type(value).__name__), "SUM")
        operation = _OPERATIONS.get(str(operation).rpartition(".")[2])
        if operation is None or not all(tensor.is_floating_point() for tensor in tensors):
            return None
        if name == "all_reduce" and tensors[0].numel() == 1:
            if self._laws.incoming.backward_seen and self._squares is None:
                self._squares = self._measure()
            return ("one", ranks, operation, tensors[0], float(tensors[0]))
        if len(self._calls) >= _MOST_CALLS:
            return None
        if name == "all_reduce" and is_plain(tensors[0]):
            part = picked(tensors[0]).double().cpu()
            return ("all", ranks, operation, tensors[0], [part], float(part.abs().sum()), epsilon(tensors[0].dtype))
        if name in ("reduce_scatter_tensor", "_reduce_scatter_base") and len(tensors) == 2 and all(map(is_plain, tensors)):
            output, given = tensors
            if given.numel() == output.numel() * len(ranks):
                parts = [picked(piece).double().cpu() for piece in given.contiguous().view(len(ranks), -1)]
                return ("scatter", ranks, operation, output, parts, max(float(part.abs().sum()) for part in parts), epsilon(output.dtype))
        return None

    def _end(self, result):
        if hasattr(result, "wait"):   # under way
            self._later.add(result, self._call, (), {})
        else:
            self._arrived(self._call, (), {})

    def _arrived(self, call, _args, _kwargs):
        kind, ranks, operation, output = call[:4]
        if kind == "one":
            self._scalars.append((ranks, operation, call[4], float(output)))
            return
        parts, size, unit = call[4:]
        out = picked(output).double().cpu()
        weight = weights(out.numel())[0]
        place = ranks.index(self._laws.monitor.rank) if kind == "scatter" and self._laws.monitor.rank in ranks else 0
        self._calls.append((ranks, operation, kind == "scatter", place, [float((part * weight).sum()) for part in parts],
                            float((out * weight).sum()), size, unit))

    def _measure(self):
        """The square of the norm of every gradient as it is now."""
        squares = {}
        for tensor, name in self._laws.named.values():
            gradient = optimizers.own_gradient(tensor, True)
            if gradient is not None and is_plain(gradient):
                squares[name] = float(torch.linalg.vector_norm(local(gradient).float()).double() ** 2)
        return squares

    # ---- a step ----

    def before(self, step, part, clips):
        if not self._wanted or distributed.world_size() < 2 or part._before is None:
            return
        values, held, has, _, moments, _ = part._before
        rows, index_of = part.rows, range(part.rows.count)
        self._declare(part)
        record = {"value": [], "gradient": [], "state": [], "flags": [], "sums": [[], [], [], []], "size": []}
        for index in index_of:
            value, gradient = rows.part(values, index), rows.part(held, index)
            record["value"].append(self._digest(part, index, value, step))
            record["gradient"].append(digest(gradient) if has[index] else 0)
            state = 0
            for name in sorted(moments):
                if moments[name][1][index]:
                    state = zlib.crc32(rows.part(moments[name][0], index).numpy().tobytes(), state)
            record["state"].append(state)
            record["flags"].append(self._flags(part, index, value, has[index]))
            self._add_sums(part, index, gradient, has[index], record)
        self._pending[id(part)] = (part, record, clips)

    def _digest(self, part, index, value, step):
        """Of the sample, and of a part of all elements that moves on with the steps."""
        found = digest(value)
        total = part._starts[-1] + local(part.owned[-1]).numel()
        start = part._starts[index]
        tensor = local(part.owned[index]).detach()
        first = 0 if total <= _WHOLE else step * _WHOLE % total
        begin, end = max(first - start, 0), min(first + _WHOLE - start, tensor.numel())
        if begin >= end or tensor.numel() <= part.rows.sizes[index] or not tensor.is_contiguous():
            return found
        piece = tensor.view(-1)[begin:end].cpu()
        piece = piece.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[piece.element_size()])
        return zlib.crc32(piece.numpy(), found)

    def _flags(self, part, index, value, has):
        tensor = part.link_of.get(index, part.owned[index])
        name = part.names[index]
        flags = HAS_GRADIENT if has else 0
        if value.numel() < 2 or bool((value == value[0]).all()):
            flags |= CONSTANT
        placements = getattr(tensor, "placements", None)
        if placements is not None and not all(type(placement).__name__ == "Replicate" for placement in placements) \
                or getattr(tensor, "tensor_model_parallel", False) or self._laws.has_shards and placements is None:
            flags |= SHARD
        if id(tensor) in self._copies:
            flags |= COPY
        if "expert" in name.lower() or getattr(tensor, "allreduce", True) is False:
            flags |= EXPERT
        if id(tensor) in self._everywhere:
            flags |= EVERYWHERE
        if self._report.excepts("replica", name) or self._report.excepts("reduction", name):
            flags |= EXCEPTED
        return flags

    def _add_sums(self, part, index, gradient, has, record):
        tensor = part.link_of.get(index, part.owned[index])
        slot = self._laws.incoming.slots.get(id(tensor))
        one, two = weights(gradient.numel())
        known = slot is not None and slot.total is not None and slot.count > 0 and has and slot.total.numel() == gradient.numel()
        sums = [0.0, 0.0, float((gradient * one).sum()), float((gradient * two).sum())]
        size = 0.0
        if known:
            sum_ = slot.total.double().cpu()
            sums[:2] = float((sum_ * one).sum()), float((sum_ * two).sum())
            unit = max(epsilon(local(tensor).dtype), epsilon(optimizers.own_gradient(part.owned[index], True).dtype))
            size = float(slot.size.double().cpu().sum()) * unit * (slot.count + 8)
            record["flags"][-1] |= SUM_KNOWN
        for column, number in zip(record["sums"], sums):
            column.append(number)
        record["size"].append(size)

    def after(self, step, part):
        pending = self._pending.pop(id(part), None)
        if pending is None:
            return
        _, record, clips = pending
        after = [digest(part.rows.part(part.values_after, index)) for index in range(part.rows.count)]
        squares = self._squares or {}
        content = struct.pack("<qII", step, self._number(part), part.rows.count)
        for column in (record["value"], after, record["gradient"], record["state"], record["flags"]):
            content += array.array("I", column).tobytes()
        for column in record["sums"] + [record["size"], [squares.get(name, float("nan")) for name in part.names]]:
            content += array.array("d", column).tobytes()
        extra = {"groups": [[list(ranks), count] for ranks, count in self._groups.items()], "pairs": self._pairs,
                 "clips": [[clip.total, clip.local, clip.most, clip.factor, bool(clip.sharded or self._laws.has_shards), clip.applied]
                           for clip in clips],
                 "scalars": [[list(ranks), operation, given, got] for ranks, operation, given, got in self._scalars[-16:]],
                 "calls": [[list(ranks), operation, scatter, place, parts, out, size, unit]
                           for ranks, operation, scatter, place, parts, out, size, unit in self._calls]}
        text = json.dumps(_finite(extra)).encode()
        self._write(_STEP, content + struct.pack("<I", len(text)) + text)
        if self._laws.monitor.settings.get("exchange"):
            self._exchange(step, part, record, after)

    def _exchange(self, step, part, record, after):
        """Asked for: the ranks look at each other's digests now. Copies are those that DistributedDataParallel holds, and those that were
        equal at the first exchange and were given equal gradients."""
        columns = [("the parameter", record["value"]), ("its gradient", record["gradient"]), ("its optimizer state", record["state"]),
                   ("the parameter after the update", after)]
        mine = [(name, flags, [column[index] for _, column in columns])
                for index, (name, flags) in enumerate(zip(part.names, record["flags"]))]
        told = [None] * distributed.world_size()
        with own_work():
            distributed.initialised().all_gather_object(told, mine)
        of_rank = [{name: (flags, digests) for name, flags, digests in one} for one in told]
        for index, (name, flags, digests) in enumerate(mine):
            others = [one.get(name) for one in of_rank]
            if flags & (SHARD | EXCEPTED) or None in others:
                continue
            if flags & COPY:
                ranks = self._copies[id(part.link_of.get(index, part.owned[index]))] or range(len(told))
            else:
                ranks = range(len(told))
                alike = all(other[1][:2] == digests[:2] for other in others)
                if not self._exchanged.setdefault(name, alike and not flags & (EXPERT | CONSTANT)):
                    continue
            for place, (what, _) in enumerate(columns):
                if len({others[rank][1][place] for rank in ranks}) > 1 and self._laws.monitor.rank == min(ranks):
                    self._report.broken(step, "replica", name, "", "", "%s differs between ranks that hold copies" % what, list(ranks))
                    break

    def step_ends(self, step):
        self._groups, self._scalars, self._calls, self._pairs, self._squares = {}, [], [], 0, None
        if self._file is not None:
            self._file.flush()

    # ---- the file ----

    def _number(self, part):
        return list(self._names_of).index(id(part))

    def _declare(self, part):
        if not hasattr(part, "_starts") or self._names_of.get(id(part)) != part._key:
            part._starts, start = [], 0
            for tensor in part.owned:
                part._starts.append(start)
                start += local(tensor).numel()
        if self._names_of.get(id(part)) == part._key:
            return
        self._names_of[id(part)] = part._key
        copies = sorted({tuple(ranks) for ranks in self._copies.values() if ranks})
        told = {"rank": self._laws.monitor.rank, "world_size": distributed.world_size(), "part": self._number(part),
                "laws": self._report.laws, "copies": [list(ranks) for ranks in copies],
                "names": [plain_name(name) for name in part.names], "sizes": [local(tensor).numel() for tensor in part.owned]}
        self._write(_NAMES, json.dumps(told).encode())

    def _write(self, kind, content):
        folder = self._laws.monitor.tensorboard_dir
        if self._file is None:
            if not folder:
                return
            self._file = open(os.path.join(folder, FILE), "ab")  # pylint: disable=consider-using-with
        self._file.write(struct.pack("<II", kind, len(content)) + content)


def _finite(value):
    """JSON has no NaN."""
    if isinstance(value, float):
        return value if value - value == 0 else None
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list) else value
