"""The face to a training script: TrainerMonitorV2."""
import os

from msprobe import _native
from msprobe._intercept.runtime import log, say_once
from msprobe.core.monitor_v2.settings import Settings


class TrainerMonitorV2:
    """Writes statistics of modules, gradients, optimizer states, parameters and communication as
    <output_dir>/rank_<R>/<monitor>_step<a>-<b>.csv."""

    def __init__(self, config_path, fr=None):
        self._settings = settings = Settings(config_path, fr)
        self.framework = settings.framework
        self.start_step, self.stop_step = settings.start_step, settings.stop_step
        self.step_interval = settings.step_interval
        self.step_count_per_record = settings.step_count_per_record
        self.collect_times = settings.collect_times
        self.output_dir = settings.output_dir
        self.monitors = settings.monitors
        self.rank = self._find_rank()
        self._is_selected = not settings.ranks or self.rank in settings.ranks
        self._watcher = None
        self._patched = False
        if self._is_selected:
            os.makedirs(self.folder, mode=0o750, exist_ok=True)

    @property
    def folder(self):
        """The files of this rank."""
        return os.path.join(self.output_dir, "rank_%d" % self.rank)

    @property
    def current_step(self):
        return self._watcher.engine.step if self._watcher is not None else 0

    def start(self, model=None, optimizer=None, **context):
        """Watches from here on. `model`: a module or a list of them, the chunks of a pipeline."""
        self._require(model, optimizer)
        if not self._is_selected or self._watcher is not None:
            return
        if self.framework == "mindspore":
            raise ValueError("TrainerMonitorV2 watches trainings of PyTorch; for MindSpore there is "
                             "msprobe.mindspore.TrainerMon")
        from msprobe.pytorch.monitor.second import Watcher
        wanted = self._settings.patch_optimizer_step
        self._patched = optimizer is not None and (wanted is None or bool(wanted))
        self._watcher = Watcher(self._settings, self.folder, self.rank, counts=self._patched)
        self._watcher.begin(model, optimizer, self._settings.micro_steps(context))

    def step(self):
        """The step has ended. With the optimizer's steps counted, which is the default where it is given, there is nothing to do."""
        if self._watcher is None:
            return
        if self._patched:
            say_once(_native.LOG_WARNING, "TrainerMonitorV2.step: steps of the optimizer are counted (patch_optimizer_step): this call "
                     "changes nothing")
            return
        self._watcher.end_step()

    def stop(self):
        """Nothing is watched any more; the steps that ended are written."""
        if self._watcher is not None:
            self._watcher.close()

    def _require(self, model, optimizer):
        needs = {"module": ("model",), "weight_grad": ("optimizer",), "optimizer": ("model", "optimizer"),
                 "param": ("model", "optimizer")}
        given = {"model": model, "optimizer": optimizer}
        for kind in self.monitors:
            missing = [name for name in needs.get(kind.name, ()) if given[name] is None]
            if missing:
                raise ValueError("TrainerMonitorV2.start: the monitor %s needs the %s" % (kind.slug, " and the ".join(missing)))

    def _find_rank(self):
        if self.framework != "pytorch":
            return 0
        try:
            from torch import distributed
        except ImportError:
            log(_native.LOG_WARNING, "TrainerMonitorV2: this Python has no PyTorch")
            return 0
        return distributed.get_rank() if distributed.is_available() and distributed.is_initialized() else 0
