"""The training monitor for MindSpore in dynamic-graph mode: Cells, gradients, parameters, moments.

Communication, module structure and stacks are PyTorch's alone. Moments are parameters of the
optimizer, recognised by their names.
"""
import functools
import weakref

import mindspore

from msprobe import _monitor, _native
from msprobe._intercept import gradients as graph_gradients
from msprobe._intercept import optimizer_steps
from msprobe._intercept.modules import ModuleCalls
from msprobe._intercept.runtime import log
from msprobe.mindspore import gradients, ranks, values


# What the names of moments contain: of mint.optim, nn.Adam, nn.AdamWeightDecay.
_MOMENTS = {"exp_avg_sq": ("exp_avg_sq", "moment2.", "adam_v."),
            "exp_avg": ("exp_avg", "moment1.", "adam_m.")}


def _moment(name):
    """exp_avg_sq, exp_avg, or None for a parameter that is not a moment."""
    return next((task for task, parts in _MOMENTS.items() if any(part in name for part in parts)),
                None)


class Parameter:
    """One trainable parameter under the name it is reported by."""

    def __init__(self, tensor, name):
        self.tensor = tensor
        self.name = name


class _Cell:
    """A Cell that is watched."""

    def __init__(self, cell, forget, name):
        self._reference = weakref.ref(cell, forget)  # its id is the key as long as it lives
        self.name = name
        self.micro_steps = 1
        self.forward = 0
        self.backward = 0
        self.slots = ()


class _Call:
    """One call of a watched Cell."""

    __slots__ = ("args", "kwargs", "_cells", "_known", "_gradients")

    def __init__(self, cells, known, args, kwargs):
        self.args, self.kwargs = args, kwargs
        self._cells = cells
        self._known = known
        self._gradients = cells.watch_gradients(known, args, kwargs)

    def after(self, output):
        watched, self._gradients = self._gradients, None
        self._cells.record(self._known, self.args, self.kwargs, output)
        if watched is not None:
            self._cells.watch_results(self._known, watched, output)
        return output

    def failed(self):
        if self._gradients is not None:
            self._gradients.abandon()


class _CellBackward:
    """One backward of a watched Cell."""

    __slots__ = ("_cells", "_known")

    def __init__(self, cells, known):
        self._cells = cells
        self._known = known

    def begin(self):
        """Nothing is recorded before its gradients are there."""

    def end(self, of_outputs, of_inputs):
        self._cells.record_gradients(self._known, of_outputs, of_inputs)


class Cells(_monitor.Collector):
    """Calls of Cells are seen while a step is measured."""

    def __init__(self, monitor):
        super().__init__(monitor)
        settings = monitor.settings
        self._forward = settings["forward_only"] or not settings["backward_only"]
        self._backward = settings["backward_only"] or not settings["forward_only"]
        self._known = {}
        self.active = False

    def watch(self, watched):
        for stage, model in watched.stages():
            for path, cell in model.cells_and_names():
                name = self.engine.name_module(stage, path)
                if name is None or id(cell) in self._known:
                    continue
                known = self._known[id(cell)] = _Cell(cell, functools.partial(self._forget, id(cell)), name)
                known.micro_steps = watched.micro_steps
                known.slots = tuple(
                    self.engine.slot(table, name + end, task)
                    for table, task in ((_native.TABLE_ACTV, "actv"),
                                        (_native.TABLE_ACTV_GRAD, "actv_grad"))
                    for end in (".input", ".output"))

    def _forget(self, key, _):
        self._known.pop(key, None)

    def start(self):
        for known in list(self._known.values()):
            known.forward = known.backward = 0
        self.active = True
        ModuleCalls.of(mindspore.nn.Cell).subscribe(self)

    def stop(self):
        self.active = False
        graph_gradients.let_go()
        ModuleCalls.of(mindspore.nn.Cell).unsubscribe(self)

    @property
    def only(self):
        return self._known

    def before_update(self, watched):
        graph_gradients.settle()

    def before(self, cell, args, kwargs):
        """For _intercept.modules."""
        return _Call(self, self._known[id(cell)], args, kwargs)

    def watch_gradients(self, known, args, kwargs):
        if not self._backward or not gradients.available() or not values.gradients_are_recorded():
            return None
        try:
            watched = gradients.of_call(_CellBackward(self, known), self._tell_hidden)
            watched.before(args, kwargs)
            return watched
        except Exception as error:  # training goes on
            self.monitor.failed("inputs of %s" % known.name, error)
            return None

    def watch_results(self, known, watched, output):
        try:
            watched.after(output)
        except Exception as error:  # training goes on
            self.monitor.failed("output of %s" % known.name, error)

    def _tell_hidden(self):
        self.monitor.say_once(_native.LOG_WARNING, gradients.HIDDEN % "monitor")

    @_monitor.guarded
    def record(self, known, args, kwargs, output):
        if self._forward:
            micro_step = known.forward
            known.forward = (micro_step + 1) % known.micro_steps
            self.engine.forward(known.slots[0], known.slots[1], micro_step, args, kwargs, output)

    @_monitor.guarded
    def record_gradients(self, known, of_outputs, of_inputs):
        if self.active:
            micro_step = known.backward
            known.backward = (micro_step + 1) % known.micro_steps
            self.engine.values(known.slots[2], micro_step, of_inputs)
            self.engine.values(known.slots[3], micro_step, of_outputs)


class ParameterTables(_monitor.Collector):
    """Gradients that the optimizer is given, its moments, and parameters before and after."""

    def __init__(self, monitor):
        super().__init__(monitor)
        self._lists = {}

    def watch(self, watched):
        settings, slot = self.monitor.settings, self.engine.slot
        names = [parameter.name for parameter in watched.parameters]

        def slots(key, table, task):
            return [slot(table, name, task) for name in names] if settings[key] else []

        moments = {"exp_avg": [], "exp_avg_sq": []}
        if settings["mv_distribution"]:
            for name, tensor in watched.optimizer.parameters_and_names():
                task = _moment(name)
                table = _native.TABLE_EXP_AVG_SQ if task == "exp_avg_sq" else _native.TABLE_EXP_AVG
                if task is not None:
                    moments[task].append((slot(table, "0:" + name, task), tensor))
        self._lists[id(watched)] = (slots("wg_distribution", _native.TABLE_GRAD_REDUCED,
                                          "post_grad"),
                                    slots("param_distribution", _native.TABLE_PARAM_ORIGIN,
                                          "param_origin"),
                                    slots("param_distribution", _native.TABLE_PARAM_UPDATED,
                                          "param_updated"), moments)

    def before_update(self, watched):
        reduced, origin, _, moments = self._lists[id(watched)]
        if reduced:
            self.engine.table(reduced, self._given(watched))
        for pairs in moments.values():
            self.engine.table([slot for slot, _ in pairs], [tensor for _, tensor in pairs])
        if origin:
            self.engine.table(origin, [parameter.tensor for parameter in watched.parameters])

    def after_update(self, watched):
        updated = self._lists[id(watched)][2]
        if updated:
            self.engine.table(updated, [parameter.tensor for parameter in watched.parameters])

    @staticmethod
    def _given(watched):
        """The gradients in the optimizer's call, in the order of its parameters."""
        given = watched.update_arguments[0] if watched.update_arguments else ()
        given = given if isinstance(given, (list, tuple)) else ()
        by_parameter = {id(tensor): gradient
                        for tensor, gradient in zip(watched.optimizer.parameters, given)}
        return [by_parameter.get(id(parameter.tensor)) for parameter in watched.parameters]


class TrainerMon(_monitor.Monitor):
    """Watches a training: statistics of activations, gradients, parameters and moments of the steps
    that its configuration selects."""

    def __init__(self, config_file_path, process_group=None, params_have_main_grad=True,
                 opt_ty=None):
        values.configure()
        super().__init__("mindspore", config_file_path)
        rank = ranks.rank()
        self.place = _monitor.Place(rank if rank >= 0 else None)
        self.put_place()

    def set_monitor(self, model, optimizer, grad_acc_steps=1, tp_group=None, dp_group=None,
                    start_iteration=0):
        """Watches a Cell, or the chunks of a pipeline, through the steps of `optimizer`."""
        models = list(model) if isinstance(model, (list, tuple)) else [model]
        if optimizer is None or not all(isinstance(item, mindspore.nn.Cell) for item in models):
            log(_native.LOG_ERROR, "monitor: nothing is watched: set_monitor needs a Cell, or a list "
                                  "of them, and the optimizer whose steps are counted")
            return
        watched = _monitor.Watched(models, optimizer,
                                   self.count("grad_acc_steps", grad_acc_steps, 1), 0)
        self._quietly(self.watch, watched, self.count("start_iteration", start_iteration, 0))

    def make_collectors(self):
        settings = self.settings
        for key in ("print_struct", "stack_info", "mg_direction", "ur_distribution",
                    "recording_l2_features"):
            if settings[key]:
                self.say_once(_native.LOG_WARNING, "%s is not there for MindSpore" % key)
        for watched in self.watched:
            named = [Parameter(tensor, self.engine.name_parameter(stage, path))
                     for stage, model in watched.stages()
                     for path, tensor in model.parameters_and_names() if tensor.requires_grad]
            watched.parameters = [parameter for parameter in named if parameter.name is not None]
        collectors = [ParameterTables(self)]
        if settings["xy_distribution"]:
            collectors.append(Cells(self))
        return collectors

    def hook_optimizer(self, watched):
        return optimizer_steps.hook(
            self, watched, "step" if hasattr(watched.optimizer, "step") else "construct")
