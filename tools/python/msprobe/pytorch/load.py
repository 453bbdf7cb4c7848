"""The section "load" of a configuration: calls of modules get their inputs from an earlier dump.

A subscriber of _intercept.modules that is before the capture: what it puts in place is what is recorded. A value is read without its
graph, unless the configuration keeps it (_Edge of isolate). What cannot be read, or has another form, stays as it was."""
import json
import os
import weakref

import torch

from msprobe import _native
from msprobe._files import read_text
from msprobe._free_benchmark.settings import task_of
from msprobe._intercept import runtime
from msprobe._intercept.modules import ModuleCalls, SeenCall
from msprobe._intercept.runtime import described, log, own_work, say_once
from msprobe._session import Session
from msprobe._task_session import TaskSession
from msprobe.pytorch import distributed, values
from msprobe.pytorch.api_hooks import ApiHooks
from msprobe.pytorch.isolate.calls import replaced_edge

_MOST_DEPTH = 50
_SHOWN = 20


def settings_of(config_path, overrides):
    """The section of a configuration, or None without one. Raises where it, or the configuration around it, is wrong."""
    try:
        given = config_path and '"load"' in read_text(config_path)
    except (OSError, ValueError):  # whoever reads it next says why
        given = False
    if not given or task_of(config_path, overrides) in ("free_benchmark", "grad_probe"):
        return None
    return json.loads(_native.settings_of(os.fsencode(config_path), json.dumps(overrides) if overrides else "", "pytorch")).get("load")


class _Known:
    __slots__ = ("base", "calls", "reference")

    def __init__(self, base, reference):
        self.base = base
        self.calls = 0
        self.reference = reference


class Loader:
    """What is put in the place of inputs, from the first start to the end of the program."""

    def __init__(self, settings):
        self._path = settings["path"]
        self._steps, self._ranks = settings["step"], settings["rank"]
        self._nested, self._keep_graph = settings["nested"], settings["keep_graph"]
        self._unmet = dict.fromkeys(settings["modules"])
        self._wanted = frozenset(settings["modules"])
        self._missing = {}
        self._replaced = 0
        self.only = {}
        self._models = []
        self._step = 0
        self._active = False
        self._folder = None
        values.configure()
        runtime.at_exit(runtime.weakly(self.tell))

    # ---- steps ----

    def start(self, model, rank_id=None):
        if model is not None:
            self._name(model)
        if not self.only:
            raise ValueError("the section load needs the model: start(model)")
        rank = distributed.rank() if rank_id is None else rank_id
        selected = (not self._steps or self._step in self._steps) and (not self._ranks or max(rank, 0) in self._ranks)
        self._folder = self._find_folder(rank) if selected else None
        self._active = True
        ModuleCalls.of(torch.nn.Module).subscribe(self)

    def stop(self):
        self._active = False

    def step(self):
        self._active = False
        self._step += 1
        for known in self.only.values():
            known.calls = 0

    def set_init_step(self, step):
        self._step = step

    def _find_folder(self, rank):
        """Of this step and rank, the folder with tensors."""
        step = os.path.join(self._path, "step%d" % self._step)
        try:
            names = sorted(os.listdir(step))
        except OSError:
            self._miss(step)
            return None
        if rank >= 0:
            found = [name for name in ("rank%d" % rank, "rank") if name in names][:1]
        else:
            found = [name for name in names if name in ("rank", "rank0") or name.startswith("proc")]
        if len(found) > 1:
            say_once(_native.LOG_WARNING, "load: %s has several processes (%s): inputs are taken from %s"
                     % (step, ", ".join(found[:_SHOWN]), found[0]))
        if not found:
            self._miss(os.path.join(step, "rank%d" % max(rank, 0)))
            return None
        return os.path.join(step, found[0], "dump_tensor_data")

    # ---- names ----

    def _name(self, model):
        listed = isinstance(model, (list, tuple))
        roots = list(model) if listed else [model]
        if [reference() for reference in self._models] == roots:
            return
        self._models = [weakref.ref(root) for root in roots]
        self.only = {}
        for index, root in enumerate(roots):
            for path, module in root.named_modules():
                kind = type(getattr(module, "_orig_mod", module)).__name__
                base = "Module.%s%s.%s.forward" % ("%d." % index if listed else "", path, kind)
                if path:
                    self.only.setdefault(id(module), _Known(base, weakref.ref(module)))
        bases = {known.base for known in self.only.values()}
        for name in self._wanted:
            if name.rpartition(".")[0] not in bases:
                log(_native.LOG_WARNING, "[load] invalid module: the model has no %s" % name.rpartition(".forward.")[0])

    # ---- calls ----

    def before(self, module, args, kwargs):
        """For _intercept.modules."""
        known = self.only[id(module)]
        if not self._active or known.reference() is not module or _native.is_recomputing():
            return None
        name = "%s.%d" % (known.base, known.calls)
        known.calls += 1
        if self._folder is None or name not in self._wanted:
            return None
        self._unmet.pop(name, None)
        try:
            return SeenCall(tuple(self._replace(value, "%s.input.%d" % (name, place)) for place, value in enumerate(args)),
                            {key: self._replace(value, "%s.kwargs.%s" % (name, key)) for key, value in (kwargs or {}).items()})
        except Exception as error:
            say_once(_native.LOG_WARNING, "load: %s keeps its inputs: %s" % (name, described(error)))
            return None

    def _replace(self, value, name, depth=0):
        if isinstance(value, torch.Tensor):
            return self._loaded(value, name)
        if not self._nested or depth > _MOST_DEPTH:
            return value
        if isinstance(value, dict) and type(value) is dict:
            return {key: self._replace(item, "%s.%s" % (name, key), depth + 1) for key, item in value.items()}
        if isinstance(value, (list, tuple)):
            items = [self._replace(item, "%s.%d" % (name, place), depth + 1) for place, item in enumerate(value)]
            return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
        return value

    def _loaded(self, tensor, name):
        path = os.path.join(self._folder, name + ".pt")
        if not os.path.exists(path):
            self._miss(path)
            return tensor
        with own_work(), torch.no_grad():
            loaded = torch.empty(tensor.shape, dtype=tensor.dtype)
            try:
                _native.read_tensor(os.fsencode(path), loaded)
            except (OSError, RuntimeError, ValueError, TypeError) as error:
                self._miss(path, str(error))
                return tensor
            loaded = loaded.to(tensor.device)
        self._replaced += 1
        if tensor.requires_grad and self._keep_graph and torch.is_grad_enabled():
            return replaced_edge(tensor, loaded)
        return loaded.requires_grad_(tensor.requires_grad)

    def _miss(self, path, why=""):
        if path not in self._missing:
            self._missing[path] = why
            if len(self._missing) <= _SHOWN:
                log(_native.LOG_WARNING, "[load] source data missing: %s%s; the value of this run is kept"
                    % (path, ": " + why if why else ""))

    # ---- the end ----

    def tell(self):
        """Once: what was replaced, and what never was."""
        if not self._models:
            return
        log(_native.LOG_INFO if self._replaced else _native.LOG_WARNING,
            "load: %d inputs replaced%s%s" % (
                self._replaced,
                "; never called: %s" % ", ".join(list(self._unmet)[:_SHOWN]) if self._unmet else "",
                "; %d files missing or of another form" % len(self._missing) if self._missing else ""))
        self._models = []


class LoadingSession(Session):
    """A capture of a run whose inputs are replaced."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self._loader = Loader(self.settings["load"])

    def start(self, model=None, token_range=None, rank_id=None, scheduled_tokens=None):
        if model is not None:
            self.hooks.check_model(model)
        self._loader.start(model, rank_id)
        super().start(model, token_range, rank_id, scheduled_tokens)

    def stop(self):
        self._loader.stop()
        super().stop()

    def step(self):
        self._loader.step()
        super().step()

    def set_init_step(self, step):
        self._loader.set_init_step(step)
        super().set_init_step(step)


class LoadOnly(TaskSession):
    """Inputs are replaced, nothing is recorded."""

    level = "L0"
    task = "load"

    def __init__(self, settings):
        super().__init__()
        self._loader = Loader(settings)
        self.apis = ApiHooks()

    def tensor_types(self):
        return (torch.Tensor,)

    def check_model(self, model):
        for root in model if isinstance(model, (list, tuple)) else [model]:
            if not isinstance(root, torch.nn.Module):
                raise TypeError("start takes a torch.nn.Module, not %s" % type(root).__name__)

    def start(self, model=None, token_range=None, rank_id=None, scheduled_tokens=None):
        if model is not None:
            self.check_model(model)
        self._loader.start(model, rank_id)

    def stop(self):
        self._loader.stop()

    def step(self):
        self.generation += 1
        self._loader.step()

    def set_init_step(self, step):
        self._loader.set_init_step(step)

    def close(self):
        self._loader.stop()
