"""What a process goes on with after it read a checkpoint is what was there when the checkpoint was written.

At torch.save and torch.distributed.checkpoint.save digests of the parameters and of the optimizer's state are put beside the checkpoint, in
a hidden file of a few bytes for each tensor. A process that reads that checkpoint and puts something of it into a model that is watched has
to have the same at the first update after it. What the checkpoint does not hold is not asked for: a file of weights alone owes no moments.
"""
import json
import os
import sys
import weakref

import torch

from msprobe import _native
from msprobe._files import read_text
from msprobe._intercept import runtime
from msprobe._intercept.slots import Slot
from msprobe.pytorch import distributed
from msprobe.pytorch.monitor.laws.samples import digest, is_plain, picked

_DEPTH = 8
_watch = None


def watch(laws):
    """The one watch of this process; what it sees before a model is watched counts, too."""
    global _watch
    if _watch is None:
        _watch = Watch()
    if "resume" in laws:
        _watch.install()
    return _watch


def _digest(tensor):
    return digest(picked(tensor).double().cpu())


def _tensors(value, depth=_DEPTH):
    if isinstance(value, torch.Tensor):
        yield value
    elif depth and isinstance(value, dict):
        for item in value.values():
            yield from _tensors(item, depth - 1)
    elif depth and isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item, depth - 1)


def _beside(path, rank):
    """The hidden file of a checkpoint: in its folder, or in the folder that it is."""
    path = os.path.abspath(os.fspath(path))
    if os.path.isdir(path):
        return os.path.join(path, ".msprobe_laws_rank%d.json" % rank)
    folder, name = os.path.split(path)
    return os.path.join(folder, ".%s.msprobe_laws_rank%d.json" % (name, rank))


class Watch:
    def __init__(self):
        self._laws = weakref.WeakSet()
        self._slots = []
        self._loaded = None          # (path, what was beside it)
        self._put_into = set()       # ids of parameters that a state was loaded into
        self._optimizers = weakref.WeakSet()
        self._was_loaded = False

    def install(self):
        self._over(torch, "save", self._saving)
        self._over(torch, "load", self._loading)
        self._over(torch.nn.Module, "load_state_dict", self._into_module)
        self._over(torch.optim.Optimizer, "load_state_dict", self._into_optimizer)
        checkpoint = sys.modules.get("torch.distributed.checkpoint")
        if checkpoint is not None:
            for name in ("save", "save_state_dict"):
                self._over(checkpoint, name, self._saving_sharded)
            for name in ("load", "load_state_dict"):
                self._over(checkpoint, name, self._loading_sharded)

    def _over(self, holder, name, handler):
        if any(slot.holder is holder and slot.name == name for slot in self._slots) or not hasattr(holder, name):
            return
        original = getattr(holder, name)

        def call(*args, **kwargs):
            result = original(*args, **kwargs)
            before = _native.inside(True)
            try:
                if not before:
                    handler(result, *args, **kwargs)
            except Exception as error:  # training goes on
                runtime.say_once(_native.LOG_WARNING, "law resume: %s; training continues" % runtime.described(error))
            finally:
                _native.inside(before)
            return result

        call.__name__, call.__doc__, call.__wrapped__ = name, original.__doc__, original
        slot = Slot(holder, name, call, tells=False)
        slot.put()
        self._slots.append(slot)

    # ---- a checkpoint is written ----

    def _saving(self, _result, obj=None, f=None, *_args, **_kwargs):
        path = f if isinstance(f, (str, os.PathLike)) else getattr(f, "name", None)
        if isinstance(path, (str, os.PathLike)) and os.path.exists(path):
            self._write(path, obj)

    def _saving_sharded(self, _result, state_dict=None, *_args, **kwargs):
        path = kwargs.get("checkpoint_id") or getattr(kwargs.get("storage_writer"), "path", None)
        path = path or next((value for value in _args if isinstance(value, (str, os.PathLike))), None)
        if path is not None:
            self._write(path, state_dict)

    def _write(self, path, obj):
        inside = {}
        for tensor in _tensors(obj):
            local = getattr(tensor, "_local_tensor", tensor)
            if is_plain(local):
                inside.setdefault((local.numel(), _digest(local)), True)
        if not inside:
            return
        told = {"world_size": distributed.world_size(), "parameters": {}, "states": {}}
        for laws in [one for one in self._laws if one._active]:
            if laws.has_shards:
                told["shards"] = True
            for tensor, name in laws.named.values():
                if is_plain(tensor):
                    key = (getattr(tensor, "_local_tensor", tensor).numel(), _digest(tensor))
                    if key in inside:
                        told["parameters"][name] = key
            for name, state in _states(laws):
                for word, value in state.items():
                    if isinstance(value, torch.Tensor) and value.numel() > 1 and is_plain(value):
                        key = (getattr(value, "_local_tensor", value).numel(), _digest(value))
                        if key in inside:
                            told["states"].setdefault(name, {})[word] = key
                if name in told["states"]:
                    count = _steps_of(state)
                    if count is not None:
                        told["states"][name]["step"] = count
        if not told["parameters"] and not told["states"]:
            return
        place = _beside(path, max(distributed.rank(), 0))
        unfinished = "%s.%d.tmp" % (place, os.getpid())
        with open(unfinished, "w", encoding="utf-8") as file:
            json.dump(told, file)
        os.replace(unfinished, place)
        for laws in [one for one in self._laws if one._active]:
            laws.report.checked("resume")

    # ---- one is read ----

    def _loading(self, _result, f=None, *_args, **_kwargs):
        path = f if isinstance(f, (str, os.PathLike)) else getattr(f, "name", None)
        if isinstance(path, (str, os.PathLike)):
            self._read(path)

    def _loading_sharded(self, _result, state_dict=None, *_args, **kwargs):
        path = kwargs.get("checkpoint_id") or getattr(kwargs.get("storage_reader"), "path", None)
        path = path or next((value for value in _args if isinstance(value, (str, os.PathLike))), None)
        if path is not None:
            self._read(path)
            for tensor in _tensors(state_dict):
                self._put_into.add(id(tensor))

    def _read(self, path):
        rank = max(distributed.rank(), 0)
        for place in (_beside(path, rank), _beside(path, 0)):
            if os.path.exists(place):
                told = json.loads(read_text(place))
                if told.get("shards") and (place != _beside(path, rank) or told["world_size"] != distributed.world_size()):
                    continue
                if self._loaded is None or self._loaded[0] != path:
                    self._put_into = set()
                    self._optimizers = weakref.WeakSet()
                self._loaded = (path, told)
                return

    def _into_module(self, _result, module=None, *_args, **_kwargs):
        self._put_into.update(id(parameter) for parameter in module.parameters())
        self._was_loaded = True

    def _into_optimizer(self, _result, optimizer=None, *_args, **_kwargs):
        self._optimizers.add(optimizer)
        self._was_loaded = True

    def take_loaded(self):
        was, self._was_loaded = self._was_loaded, False
        return was

    # ---- and goes on ----

    def compare(self, laws):
        """Before an update."""
        self._laws.add(laws)
        if self._loaded is None or not laws.report.wants("resume"):
            return
        path, told = self._loaded
        self._loaded = None
        held = {name: tensor for tensor, name in laws.named.values() if is_plain(tensor)}
        alike, other = [], []
        for name, (count, due) in told["parameters"].items():
            tensor = held.get(name)
            if tensor is not None and getattr(tensor, "_local_tensor", tensor).numel() == count:
                (alike if _digest(tensor) == due else other).append(name)
        ours = {id(tensor) for tensor in held.values()}
        restored = any(optimizer in self._optimizers for optimizer in [part.optimizer for _, _, part in laws._steps.values()])
        if not alike and not (ours & self._put_into or restored):
            laws.report.leave_out("resume", "a checkpoint was read, and nothing of it was put into this model")
            return
        if other and not restored and alike:
            laws.report.leave_out("resume", "a part of a checkpoint was taken and its optimizer was not: another training")
            return
        base = os.path.basename(os.fspath(path))
        for name in other:
            laws.report.broken(laws.step, "resume", name, "", "", "the parameter is not what it was when %s was written" % base)
        states = dict(_states(laws))
        for name, words in told["states"].items():
            if name not in held and name not in states:
                continue
            self._compare_state(laws, base, name, words, states.get(name) or {})
        laws.report.checked("resume", len(alike) + len(other) + len(told["states"]))

    @staticmethod
    def _compare_state(laws, base, name, words, state):
        for word, due in words.items():
            if word == "step":
                now = _steps_of(state)
                if now is not None and now != due:
                    laws.report.broken(laws.step, "resume", name, now, due, "its optimizer counts %g steps, and %g when %s was written"
                                       % (now, due, base))
                continue
            value = state.get(word)
            if not isinstance(value, torch.Tensor):
                laws.report.broken(laws.step, "resume", name, "", "", "%s of the optimizer is lost: %s holds it" % (word, base))
                return
            if getattr(value, "_local_tensor", value).numel() == due[0] and _digest(value) != due[1]:
                laws.report.broken(laws.step, "resume", name, float(picked(value).double().norm()), "",
                                   "%s of the optimizer is not what it was when %s was written" % (word, base))
                return


def _states(laws):
    """(name, state) of all that the optimizers own."""
    for _, _, part in list(laws._steps.values()):
        state = getattr(part.optimizer, "state", None) or {}
        part.look()
        for tensor, name in zip(part.owned, part.names):
            yield name, (state.get(tensor) or {}) if tensor in state else {}


def _steps_of(state):
    value = state.get("step")
    if isinstance(value, torch.Tensor) and value.numel() == 1:
        return float(value)
    return float(value) if isinstance(value, (int, float)) else None


