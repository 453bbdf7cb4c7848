"""The face to a training script: PrecisionDebugger, and MsprobeStep for Model.train."""
import os

from mindspore.train import Callback

from msprobe._debugger import Debugger
from msprobe._intercept import runtime
from msprobe._session import LEVELS_WITH_MODULES
from msprobe.mindspore import values
from msprobe.mindspore.free_benchmark.session import FreeBenchmark
from msprobe.mindspore.grad_probe import MindSporeGradProbe
from msprobe.mindspore.hooks import MindSporeHooks


class PrecisionDebugger(Debugger):
    """Records steps as its configuration says. One per process: a second one is the first."""

    def __init__(self, config_path=None, task=None, dump_path=None, level=None, step=None):
        if self._session is None:
            self._open_with(config_path, task=task,
                            dump_path=os.path.abspath(dump_path) if dump_path else None,
                            level=level, step=step)

    @staticmethod
    def _framework():
        return "mindtorch" if values.torch_on_mindspore() else "mindspore", MindSporeHooks()

    @staticmethod
    def _grad_probe(config_path, overrides):
        return MindSporeGradProbe(config_path, overrides)

    @staticmethod
    def _free_benchmark(config_path, overrides):
        return FreeBenchmark(config_path, overrides)

    @classmethod
    def stop(cls):
        super().stop()
        runtime.raise_owed()

    @classmethod
    def step(cls):
        super().step()
        runtime.raise_owed()


class MsprobeStep(Callback):
    """Records each step of Model.train: callbacks=[MsprobeStep(debugger)]."""

    def __init__(self, debugger):
        super().__init__()
        self._debugger = debugger

    def on_train_step_begin(self, run_context):
        session = self._debugger._existing()._session
        network = None
        if session.model is None and session.level in LEVELS_WITH_MODULES:
            network = run_context.original_args().get("network")
        self._debugger.start(network)

    def on_train_step_end(self, run_context):
        self._debugger.stop()
        self._debugger.step()
