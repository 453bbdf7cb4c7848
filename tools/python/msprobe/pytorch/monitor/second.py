"""TrainerMonitorV2 on the collectors of the monitor: other rows, and files of windows of steps.

A collector hands its values to an engine, under the slot of its table, name and task. Here the engine is _Rows: it makes a row
of each, keeps the rows of the step in progress, and appends them when the step ends. The steps themselves, and what is in place
when, are those of _monitor.Monitor."""
import csv
import io
import math
import os

import torch

from msprobe import _monitor, _native
from msprobe._intercept import optimizer_steps, runtime
from msprobe._intercept.runtime import log
from msprobe.pytorch.monitor import activations, groups, optimizers, parameters
from msprobe.pytorch.monitor.communication import Communication
from msprobe.pytorch.monitor.gradients import UnreducedGradients

_SCOPES = {_native.TABLE_ACTV: ("module", "forward"), _native.TABLE_ACTV_GRAD: ("module", "backward"),
           _native.TABLE_GRAD_UNREDUCED: ("weight_grad", "unreduced"), _native.TABLE_GRAD_REDUCED: ("weight_grad", "reduced"),
           _native.TABLE_EXP_AVG: ("optimizer", "exp_avg"), _native.TABLE_EXP_AVG_SQ: ("optimizer", "exp_avg_sq"),
           _native.TABLE_PARAM_ORIGIN: ("param", "param_origin"), _native.TABLE_PARAM_UPDATED: ("param", "param_updated"),
           _native.TABLE_OTHER: ("cc", "comm")}
_NAN = float("nan")


# ---- statistics ----

def _local(tensor):
    """What this rank holds of a tensor."""
    tensor = tensor.detach()
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


_STATISTICS = {
    "min": lambda tensor: tensor.min(),
    "max": lambda tensor: tensor.max(),
    "mean": lambda tensor: tensor.double().mean(),
    "norm": lambda tensor: torch.linalg.vector_norm(tensor.double()),
    "nans": lambda tensor: torch.isnan(tensor).sum(),
}


def _statistic(op, tensor):
    try:
        return float(_STATISTICS[op](tensor))
    except (RuntimeError, NotImplementedError, IndexError, TypeError, ValueError):  # no least element of none, no such kernel
        return _NAN


class _Sum:
    """One tensor of a collective over the calls of a step."""

    def __init__(self):
        self.calls = 0
        self.values = {}

    def add(self, values):
        self.calls += 1
        for op, value in values.items():
            known = self.values.get(op)
            if known is None:
                self.values[op] = value
            elif op in ("min", "max"):
                self.values[op] = _NAN if math.isnan(known) or math.isnan(value) else {"min": min, "max": max}[op](known, value)
            else:
                self.values[op] = known + value

    def row(self):
        return {op: value / self.calls if op == "mean" else value for op, value in self.values.items()}


# ---- rows and files ----

class _Rows:
    """What collectors take for the engine."""

    def __init__(self, settings, folder, rank, stages, micro_steps):
        self._settings = settings
        self._folder = folder
        self._rank = rank
        self._many = stages
        self._micro_steps = micro_steps
        self._kinds = {name: settings.of(name) for name, _ in _SCOPES.values()}
        self._targets = [target for target in (self._kinds["module"].options.get("targets") or () if self._kinds["module"] else ())
                         if isinstance(target, str)]
        self._lines = self._cc_option("cc_codeline", [])
        self._rows = {}
        self._sums = {}
        self._known_files = set()
        self._failed = False
        self.step = 0
        self._times = 0

    def _cc_option(self, key, default):
        return cc_options(self._settings).get(key, default)

    # ---- names ----

    def _stage(self, name):
        head = name.partition(":")[0]
        return int(head) if self._many and head.isdigit() else -1

    def name_module(self, stage, path):
        if self._targets and not any(target in path for target in self._targets):
            return None
        return "%d:%s" % (stage, path) if self._many else path

    def name_parameter(self, stage, name):
        name = name.replace("_fsdp_wrapped_module.", "")
        return "%d:%s" % (stage, name) if self._many else name

    def forget_names(self):
        pass

    def selects_stack(self, text):
        return any(line in text for line in self._lines)

    # ---- values ----

    @staticmethod
    def slot(table, name, task):
        return table, name, task

    def _measure(self, slot, name, micro_step, tensor):
        kind_name, scope = _SCOPES[slot[0]]
        kind = self._kinds[kind_name]
        if kind is None or tensor is None:
            return
        with runtime.own_work(), torch.no_grad():
            tensor = _local(tensor)
            values = {op: _statistic(op, tensor) for op in kind.ops}
        row = [self._stage(name), self.step, name, scope]
        if kind.has_micro_steps:
            row.append(self._micro_steps if micro_step == _native.NO_MICRO_STEP else micro_step + 1)
        rows = self._rows.setdefault(kind_name, {})
        # With more micro-batches than configured, the last ones count: a gradient has one row.
        key = tuple(row) if kind.has_micro_steps else len(rows)
        rows[key] = row + [values[op] for op in kind.ops]

    def values(self, slot, micro_step, tensor):
        if isinstance(tensor, torch.Tensor):
            self._measure(slot, slot[1], micro_step, tensor)

    def ends(self, table, name, end, tensors):
        """Values at one end of a call: those that are tensors, counted."""
        for index, tensor in enumerate(value for value in tensors if isinstance(value, torch.Tensor)):
            self._measure((table,), "%s.%s.%d" % (name, end, index), _native.NO_MICRO_STEP, tensor)

    def table(self, slots, tensors):
        for slot, tensor in zip(slots, tensors):
            suffix = "." + slot[2] if slot[0] in (_native.TABLE_EXP_AVG, _native.TABLE_EXP_AVG_SQ) else ""
            if isinstance(tensor, torch.Tensor) and (tensor.numel() or slot[0] == _native.TABLE_GRAD_REDUCED):
                self._measure(slot, slot[1] + suffix, _native.NO_MICRO_STEP, tensor)

    def accumulate(self, slot, tensor):
        with runtime.own_work(), torch.no_grad():
            tensor = _local(tensor)
            values = {op: _statistic(op, tensor) for op in self._kinds["cc"].ops}
        name = "%s/rank%d/%s" % (slot[1].partition(":")[2], self._rank, slot[2])
        self._sums.setdefault(name, _Sum()).add(values)

    # ---- steps ----

    def _state(self):
        return _native.MONITOR_ON if self._settings.is_selected(self.step, self._times) else _native.MONITOR_OFF

    def begin(self, first_step):
        self.step = first_step
        return self._state()

    def end_step(self):
        if self._state() == _native.MONITOR_ON:
            self._times += 1
            for name, one in self._sums.items():
                values = one.row()
                self._rows.setdefault("cc", {})[name] = (
                    ["", self.step, name, "comm"] + [values[op] for op in self._kinds["cc"].ops])
            for kind_name, rows in self._rows.items():
                self._write(self._kinds[kind_name], rows.values())
        self._rows.clear()
        self._sums.clear()
        self.step += 1
        return self._state()

    def _write(self, kind, rows):
        count = self._settings.step_count_per_record
        first = self._settings.start_step + (self.step - self._settings.start_step) // count * count
        path = os.path.join(self._folder, "%s_step%d-%d.csv" % (kind.slug, first, first + count - 1))
        try:
            is_new = not os.path.exists(path)
            if not is_new and path not in self._known_files:
                log(_native.LOG_WARNING, "TrainerMonitorV2: %s holds rows of another run; those of this one are appended" % path)
            self._known_files.add(path)
            text = io.StringIO()
            writer = csv.writer(text)
            if is_new:
                writer.writerow(kind.columns())
            writer.writerows(rows)
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o640)
            with os.fdopen(descriptor, "w", encoding="utf-8", newline="") as file:
                file.write(text.getvalue())
        except OSError as error:
            if not self._failed:
                self._failed = True
                log(_native.LOG_ERROR, "TrainerMonitorV2: %s cannot be written: %s; training continues" % (path, error))

    def write_file(self, name, text):
        with open(os.path.join(self._folder, os.path.basename(name)), "w", encoding="utf-8") as file:
            file.write(text)

    def after_fork(self):
        pass

    def close(self):
        self._rows.clear()
        self._sums.clear()


def cc_options(settings):
    """The options of collectives, which may be inside cc_distribution."""
    kind = settings.of("cc")
    if kind is None:
        return {}
    inner = kind.options.get("cc_distribution")
    return dict(kind.options, **(inner if isinstance(inner, dict) else {}))


# ---- collectors with other rows ----

class _Call(activations._Call):
    """Outputs are recorded whether the module trains or not."""

    __slots__ = ()

    def after(self, output):
        modules, known = self._modules, self._known
        try:
            if not _native.is_recomputing():
                modules.record_output(known, output)
        except Exception as error:
            modules.monitor.failed("outputs of %s" % known.name, error)
        call, self._gradients = self._gradients, None
        if call is not None:
            try:
                self._see_outputs(call, output)
            except Exception as error:
                modules.monitor.failed("gradients of %s" % known.name, error)
        self.args = self.kwargs = self._module = None
        return output


class _Modules(activations.Modules):
    """A row for each tensor, inputs when the call begins."""

    def before(self, module, args, kwargs):
        known = self._known[id(module)]
        try:
            if not _native.is_recomputing():
                self.engine.ends(_native.TABLE_ACTV, known.name, "input", list(args) + list((kwargs or {}).values()))
            return _Call(self, known, module, args, kwargs)
        except Exception as error:
            self.monitor.failed("inputs of %s" % known.name, error)
            return None

    def record_output(self, known, output):
        self.engine.ends(_native.TABLE_ACTV, known.name, "output",
                         output if isinstance(output, (tuple, list)) else [output])

    def record_gradients(self, known, micro_step, inputs, outputs):
        try:
            self.engine.ends(_native.TABLE_ACTV_GRAD, known.name, "grad_input", inputs)
            self.engine.ends(_native.TABLE_ACTV_GRAD, known.name, "grad_output", outputs)
        except Exception as error:
            self.monitor.failed("gradients of %s" % known.name, error)


class _Parameters(parameters.ParameterTables):
    """Moments as the step left them."""

    def before_update(self, watched):
        moments, self._moments = self._moments, False
        try:
            super().before_update(watched)
        finally:
            self._moments = moments

    def after_update(self, watched):
        if self._moments:
            lists = self._lists[id(watched)]
            watched.adapter.refresh(watched.parameters)
            states = [watched.adapter.state(parameter) or {} for parameter in watched.parameters]
            for name in ("exp_avg", "exp_avg_sq"):
                self.engine.table(lists[name], [state.get(name) for state in states])
        super().after_update(watched)


# ---- steps ----

class _Nothing:
    """In the place of an optimizer that is not given."""


class Watcher(_monitor.Monitor):
    """One monitor from start to stop. `counts`: its optimizer's steps are the steps."""

    def __init__(self, settings, folder, rank, counts):
        self._second = settings
        self._folder = folder
        self._counts = counts
        self.watched = []
        self.collectors = []
        self.measuring = self.finished = False
        self._begun = self._closed = self._outdated = False
        self.module_observers = []
        self.measures_modules = True
        self.say_once = runtime.Told("TrainerMonitorV2: ").once
        self.place = groups.place(None)
        self.place.rank = rank
        self.settings = self._for_collectors()
        runtime.at_exit(runtime.weakly(self.close))
        runtime.after_fork(runtime.weakly(self._after_fork))

    def _for_collectors(self):
        """The settings in the words of the collectors."""
        second = self._second
        has = {name: second.of(name) is not None for name, _ in _SCOPES.values()}
        options = cc_options(second)
        ranks = options.get("module_ranks") or []
        gradients = second.of("weight_grad")
        each = gradients.options.get("monitor_mbs_grad", False) if gradients else False
        if not isinstance(each, bool):
            log(_native.LOG_WARNING, "TrainerMonitorV2: monitor_mbs_grad is true or false, not %r: false is taken" % (each,))
            each = False
        return {"xy_distribution": has["module"], "forward_only": False, "backward_only": False, "print_struct": False,
                "stack_info": False, "wg_distribution": has["weight_grad"], "monitor_mbs_grad": each,
                "mv_distribution": has["optimizer"] and self._is_on("optimizer", "mv_distribution"),
                "param_distribution": has["param"] and self._is_on("param", "param_distribution"),
                "mg_direction": False, "ur_distribution": False, "module_ranks": ranks,
                "recording_l2_features": False,
                "cc_distribution": dict(options, enable=has["cc"] and (not ranks or self.place.rank in ranks))}

    def _is_on(self, name, key):
        return bool(self._second.of(name).options.get(key, True))

    def begin(self, model, optimizer, micro_steps):
        models = list(model) if isinstance(model, (list, tuple)) else [model] if model is not None else []
        self.engine = _Rows(self._second, self._folder, self.place.rank, isinstance(model, (list, tuple)), micro_steps)
        self._held = [_Nothing() if optimizer is None else None]  # nothing else holds it
        if not models and optimizer is not None:
            models = [self._without_model(optimizer)]
            self._held += models
        watched = _monitor.Watched(models, self._held[0] or optimizer, micro_steps, 0)
        watched.owns_modules = True
        watched.only_own = False
        watched.tensor_rank = watched.data_rank = 0
        watched.main_gradients = any(hasattr(parameter, "main_grad") for one in models for parameter in one.parameters())
        watched.has_optimizer = optimizer is not None
        self._quietly(self.watch, watched, 0)

    @staticmethod
    def _without_model(optimizer):
        """The parameters of an optimizer, as a model that is never called."""
        holder = torch.nn.Module()
        known = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        for index, parameter in enumerate(known):
            holder.register_parameter("param_%d" % index, parameter)
        return holder

    def make_collectors(self):
        for watched in self.watched:
            watched.parameters = parameters.find(self.engine, watched) if watched.has_optimizer else []
            watched.adapter = optimizers.make(watched) if watched.has_optimizer else None
        kinds = ((_Modules, self.settings["xy_distribution"]), (UnreducedGradients, self.settings["wg_distribution"]),
                 (_Parameters, any(watched.has_optimizer for watched in self.watched) and _Parameters.wanted(self.settings)),
                 (Communication, Communication.wanted(self.settings)))
        return [kind(self) for kind, wanted in kinds if wanted]

    def hook_optimizer(self, watched):
        return optimizer_steps.hook(self, watched) if watched.has_optimizer else lambda: None

    def flush_devices(self):
        pass

    def first_selected_rank(self):
        return min(self.settings["module_ranks"] or [0])

    def update_ends(self, watched):
        if self._counts:
            super().update_ends(watched)
        elif self.measuring and not self._closed:
            for collector in self.collectors:
                self._quietly(collector.after_update, watched)

    def end_step(self):
        if not self._closed:
            self._end_step()
