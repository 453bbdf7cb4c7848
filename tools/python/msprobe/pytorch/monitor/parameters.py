"""The parameters that are watched, and their rows around an optimizer's step."""
import torch

from msprobe import _monitor, _native
from msprobe.pytorch.monitor import optimizers


class Parameter:
    """One trainable parameter under the name it is reported by."""

    __slots__ = ("tensor", "name", "full_name", "duplicate")

    def __init__(self, tensor, name, full_name, duplicate):
        self.tensor = tensor
        self.name = name
        self.full_name = full_name
        self.duplicate = duplicate


def find(engine, watched):
    """The wanted parameters in registration order."""
    found = []
    seen = set()
    own = _own(watched.optimizer) if watched.only_own else None
    for stage, model in watched.stages():
        for full_name, tensor in model.named_parameters():
            if not tensor.requires_grad or id(tensor) in seen:
                continue
            if own is not None and id(tensor) not in own:
                continue
            seen.add(id(tensor))
            name = engine.name_parameter(stage, full_name)
            if name is not None:
                found.append(Parameter(tensor, name, full_name,
                                       _is_duplicate(tensor, watched)))
    return found


def _own(optimizer):
    """The parameters of an optimizer by id; None where they cannot be determined."""
    groups_of_optimizer = getattr(optimizer, "param_groups", None)
    if not groups_of_optimizer:
        return None
    return {id(tensor) for group in groups_of_optimizer for tensor in group["params"]}


def _is_duplicate(tensor, watched):
    """Whether another rank reports the same values: replicas of data and tensor parallelism."""
    if watched.data_rank != 0:
        return True
    if watched.tensor_rank == 0:
        return False
    return not getattr(tensor, "tensor_model_parallel", False)


class ParameterTables(_monitor.Collector):
    """Gradients as the optimizer sees them, its moments, and parameters before and after."""

    def __init__(self, monitor):
        super().__init__(monitor)
        settings = monitor.settings
        self._gradients = settings["wg_distribution"]
        self._moments = bool(settings["mv_distribution"])
        self._values = settings["param_distribution"]
        self._direction = bool(settings["mg_direction"])
        self._ratio = bool(settings["ur_distribution"])
        self._lists = {}

    @staticmethod
    def wanted(settings):
        return any(settings[key] for key in ("wg_distribution", "mv_distribution",
                                             "param_distribution", "mg_direction",
                                             "ur_distribution"))

    def watch(self, watched):
        slot = self.engine.slot
        names = [parameter.name for parameter in watched.parameters]

        def slots(wanted, table, task):
            return [slot(table, name, task) for name in names] if wanted else []

        self._lists[id(watched)] = {
            "gradient": slots(self._gradients, _native.TABLE_GRAD_REDUCED, "post_grad"),
            "exp_avg": slots(self._moments, _native.TABLE_EXP_AVG, "exp_avg"),
            "exp_avg_sq": slots(self._moments, _native.TABLE_EXP_AVG_SQ, "exp_avg_sq"),
            "origin": slots(self._values, _native.TABLE_PARAM_ORIGIN, "param_origin"),
            "updated": slots(self._values, _native.TABLE_PARAM_UPDATED, "param_updated"),
            "direction": slots(self._direction, _native.TABLE_OTHER, "mg_direction"),
            "ratio": slots(self._ratio, _native.TABLE_UPDATE_RATIO, "update_ratio"),
        }

    # ---- around a step ----

    def before_update(self, watched):
        lists = self._lists[id(watched)]
        adapter = watched.adapter
        adapter.refresh(watched.parameters)
        gradients = None
        if self._gradients or self._direction:
            gradients = self._reduced(watched)
        if self._gradients:
            self.engine.table(lists["gradient"], gradients)
        states = None
        if self._moments or self._direction:
            states = [adapter.state(parameter) or {} for parameter in watched.parameters]
        if self._moments:
            self.engine.table(lists["exp_avg"], [state.get("exp_avg") for state in states])
            self.engine.table(lists["exp_avg_sq"], [state.get("exp_avg_sq") for state in states])
        if self._values:
            self.engine.table(lists["origin"], _values(watched))
        if self._direction:
            self._put_directions(lists["direction"], gradients, states)
        if self._ratio:
            watched.before_update = [tensor.detach().clone() for tensor in _values(watched)]

    def after_update(self, watched):
        lists = self._lists[id(watched)]
        if self._values:
            self.engine.table(lists["updated"], _values(watched))
        if self._ratio and getattr(watched, "before_update", None) is not None:
            self._put_ratios(lists["ratio"], watched)

    def _reduced(self, watched):
        gradients = []
        without = 0
        for parameter in watched.parameters:
            gradient = None
            if not parameter.duplicate:
                gradient = watched.adapter.gradient(parameter)
                without += gradient is None
            gradients.append(gradient)
        if without:
            self.monitor.say_once(
                _native.LOG_WARNING,
                "%d of %d watched parameters have no gradient in some step (never used, "
                "or of another rank): no row for them" % (without, len(gradients)),
                subject="no gradient")
        return gradients

    # ---- numbers of gradients, moments and updates ----

    def _put_directions(self, slots, gradients, states):
        for slot, gradient, state in zip(slots, gradients, states):
            moment = state.get("exp_avg")
            if gradient is None:
                continue
            if moment is None:  # the first step makes the moment out of this gradient
                self.engine.values(slot, _native.NO_MICRO_STEP, torch.ones(()))
            elif gradient.device.type == "cpu" and moment.device.type == "cpu":
                self.engine.sign_agreement(slot, gradient.detach(), moment)
            else:
                self.engine.values(slot, _native.NO_MICRO_STEP,
                                   optimizers.sign_agreement(gradient, moment))

    def _put_ratios(self, slots, watched):
        before, watched.before_update = watched.before_update, None
        with torch.no_grad():
            ratios = []
            for old, new in zip(before, _values(watched)):
                size = torch.linalg.vector_norm(old.double())
                ratios.append(torch.linalg.vector_norm(new.double() - old.double()) / size)
            for slot, ratio in zip(slots, ratios):
                self.engine.number(slot, ratio.item())


def _values(watched):
    return [watched.adapter.value(parameter) for parameter in watched.parameters]
