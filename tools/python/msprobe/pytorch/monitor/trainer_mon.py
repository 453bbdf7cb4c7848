"""The face to a training script: TrainerMon."""
import json

import torch

from msprobe import _monitor, _native
from msprobe._intercept import optimizer_steps, runtime
from msprobe._intercept.runtime import log
from msprobe.pytorch import values
from msprobe.pytorch.monitor import groups, optimizers, parameters
from msprobe.pytorch.monitor.activations import Modules
from msprobe.pytorch.monitor.communication import Communication
from msprobe.pytorch.monitor.device import DeviceStatistics
from msprobe.pytorch.monitor.gradients import UnreducedGradients
from msprobe.pytorch.monitor.laws.laws import Laws
from msprobe.pytorch.monitor.structure import ModuleStacks, ModuleStructure




class TrainerMon(_monitor.Monitor):
    """Watches a training: statistics of activations, gradients, parameters, moments and
    communication of the steps that its configuration selects."""

    # Whether a script made one itself: a launcher's monitor then keeps out of its way.
    made_by_script = False
    _overrides = None  # of a launcher: what wins over the configuration

    def __init__(self, config_file_path, process_group=None, params_have_main_grad=True,
                 opt_ty=None):
        TrainerMon.made_by_script = True
        values.configure()
        super().__init__("pytorch", config_file_path, self._overrides)
        self.params_have_main_grad = params_have_main_grad
        self._wrapped_optimizer = None
        self.module_observers = []
        self.measures_modules = True
        self.place = groups.place(process_group)
        self.put_place()
        self._device = DeviceStatistics(self.engine, self.settings)
        self.engine.on_device(self._device.describe)

    @classmethod
    def _for_launcher(cls, config_path, overrides):
        cls._overrides = overrides
        try:
            return cls(config_path)
        finally:
            cls._overrides = None
            TrainerMon.made_by_script = False

    # ---- what scripts read ----

    @property
    def ops(self):
        """The statistics of every row."""
        return self.settings["ops"]

    @ops.setter
    def ops(self, ops):
        if self._closed:
            return
        self.engine.set_ops(json.dumps(list(ops)))
        self._read_settings()
        self._device.set_ops(self.settings)

    # ---- what scripts call ----

    def set_monitor(self, model, optimizer, grad_acc_steps=1, tp_group=None, dp_group=None,
                    start_iteration=0):
        """Watches `model` (a module, or the chunks of a pipeline) through the steps of `optimizer`
        (or of several in a list)."""
        optimizer = optimizer if optimizer is not None else self._wrapped_optimizer
        if optimizer is None:
            log(_native.LOG_ERROR, "monitor: nothing is watched: set_monitor needs the optimizer, "
                                  "whose steps are counted: set_monitor(model, optimizer)")
            return
        models = list(model) if isinstance(model, (list, tuple)) else [model]
        if not models or not all(isinstance(item, torch.nn.Module) for item in models):
            log(_native.LOG_ERROR, "monitor: nothing is watched: the model is a torch.nn.Module or a "
                                  "list of them, not %s" % type(model).__name__)
            return
        grad_acc_steps = self.count("grad_acc_steps", grad_acc_steps, 1)
        start_iteration = self.count("start_iteration", start_iteration, 0)
        self._quietly(self._place_groups, tp_group, dp_group)
        several = optimizer if isinstance(optimizer, (list, tuple)) else [optimizer]
        for index, entry in enumerate(several):
            # The modules belong to the first; the parameters to whoever updates them.
            self._quietly(self._watch_one, models, entry, grad_acc_steps, tp_group, dp_group,
                          start_iteration, index == 0, len(several) > 1)

    def monitor_gnorm_with_ad(self, model, optimizer=None, grad_acc_steps=1, tp_group=None,
                              dp_group=None, start_iteration=0):
        """The old name of set_monitor."""
        self.set_monitor(model, optimizer, grad_acc_steps=grad_acc_steps, tp_group=tp_group,
                         dp_group=dp_group, start_iteration=start_iteration)

    def set_wrapped_optimizer(self, optimizer):
        """The optimizer for a later monitor_gnorm_with_ad without one."""
        self._wrapped_optimizer = optimizer

    def reload_xy(self, xy_distribution=False):
        """Out of use; set_monitor and the configuration do it. Modules are hooked anew, and
        measured or not."""
        self.measures_modules = bool(xy_distribution)
        self.settings["xy_distribution"] = self.measures_modules
        self._quietly(self._rebuild)

    def adhoc_check(self, target_tensor, module_name, tensor_name, rank_list, ops_list):
        """Statistics of a tensor of the script's own, written with the step in progress."""
        self._quietly(self._check, target_tensor, module_name, tensor_name, rank_list, ops_list)

    def generate_xy_metrics(self):
        """(activations, their gradients) of the step in progress: {tag: {statistic: tensor}}."""
        return self._rows(_native.TABLE_ACTV), self._rows(_native.TABLE_ACTV_GRAD)

    def generate_wgrad_metrics(self, post_grad_dict=None):
        """(reduced, unreduced) weight gradients of the step in progress, in the same form."""
        if not self.settings["wg_distribution"]:
            return {}, {}
        return self._rows(_native.TABLE_GRAD_REDUCED), self._rows(_native.TABLE_GRAD_UNREDUCED)

    # ---- what the base asks for ----

    def make_collectors(self):
        settings = self.settings
        self._device.set_ops(settings)
        # Kept when hooks are made anew: what they write once is written once.
        if settings["print_struct"] and not self._observes(ModuleStructure):
            self.module_observers.append(ModuleStructure(self))
        if settings["stack_info"] and not self._observes(ModuleStacks):
            self.module_observers.append(ModuleStacks(self))
        for watched in self.watched:
            watched.parameters = parameters.find(self.engine, watched)
            watched.adapter = optimizers.make(watched)
        kinds = (Modules, UnreducedGradients, parameters.ParameterTables, Communication, Laws)
        return [kind(self) for kind in kinds if kind.wanted(settings)]

    def hook_optimizer(self, watched):
        return optimizer_steps.hook(self, watched)

    def flush_devices(self):
        self._device.flush()

    def update_begins(self, watched):
        super().update_begins(watched)
        if self.measuring:
            for observer in self.module_observers:
                self._quietly(observer.finish)

    def first_selected_rank(self):
        """The rank that writes what is written once for all."""
        return min(self.settings["module_ranks"] or [0])

    # ---- parts ----

    def _observes(self, kind):
        return any(isinstance(observer, kind) for observer in self.module_observers)

    def _place_groups(self, tp_group, dp_group):
        tensor_ranks, data_ranks = groups.ranks_of(tp_group), groups.ranks_of(dp_group)
        if tensor_ranks is None and data_ranks is None:
            return
        self.place.tensor_ranks = tensor_ranks
        self.place.data_ranks = data_ranks
        self.put_place()

    def _watch_one(self, models, optimizer, micro_steps, tp_group, dp_group, first_step, is_first,
                   one_of_several):
        known = [watched for watched in self.watched if watched.optimizer is not optimizer]
        first_stage = sum(watched.count for watched in known if watched.owns_modules)
        watched = _monitor.Watched(models, optimizer, micro_steps,
                                   first_stage if is_first else first_stage - len(models))
        # What cannot be called may be a container that was made for this: nothing else holds it.
        watched.held = [model for model in models if type(model).forward is torch.nn.Module.forward]
        watched.owns_modules = is_first
        watched.only_own = one_of_several
        watched.tensor_rank, watched.data_rank = groups.rank_in(tp_group), groups.rank_in(dp_group)
        watched.main_gradients = self.params_have_main_grad
        self.watch(watched, first_step)

    def _check(self, tensor, module_name, tensor_name, rank_list, ops_list):
        if rank_list and self.rank not in rank_list:
            return
        if not isinstance(tensor, torch.Tensor):
            raise TypeError("adhoc_check takes a tensor, not %s" % type(tensor).__name__)
        if self._closed or not self.measuring:
            return
        slot = self.engine.slot(_native.TABLE_OTHER, "0:" + module_name, tensor_name)
        self.engine.values(slot, _native.NO_MICRO_STEP, tensor.detach())

    def _rows(self, table):
        rows = {}
        if self._closed:
            return rows
        with runtime.own_work():
            self._device.flush()
            for row in json.loads(self.engine.rows(table)):
                tag = row.pop("tag")
                rows[tag] = {op: _number(value) for op, value in row.items()}
        return rows


def _number(value):
    """A number as a tensor without dimensions; shape and dtype are texts, None is NaN."""
    if isinstance(value, str):
        return value
    if isinstance(value, (bool, int)):
        return torch.tensor(value)
    return torch.tensor(float("nan") if value is None else value, dtype=torch.float64)
