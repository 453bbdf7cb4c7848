"""The face to a training script: PrecisionDebugger, module_dump, module_dump_end."""
import torch

from msprobe import _native
from msprobe._debugger import Debugger
from msprobe._intercept.runtime import log
from msprobe.pytorch import custom_apis, load
from msprobe.pytorch.free_benchmark.session import FreeBenchmark
from msprobe.pytorch.grad_probe import TorchGradProbe
from msprobe.pytorch.hooks import TorchHooks
from msprobe.pytorch.isolate.session import Isolation


class PrecisionDebugger(Debugger):
    """Records steps as its configuration says. One per process: a second one is the first."""

    def __init__(self, config_path=None, task=None, dump_path=None, level=None, model=None,
                 step=None):
        if self._session is not None:
            return
        self._open_with(config_path, task=task, dump_path=dump_path, level=level, step=step)
        if model is not None:
            log(_native.LOG_WARNING, "the argument model of PrecisionDebugger is out of use: "
                                    "give it to start(model)")
            self._hooks.check_model(model)
            self._session.model = model

    @staticmethod
    def _framework():
        return "pytorch", TorchHooks()

    @staticmethod
    def _grad_probe(config_path, overrides):
        return TorchGradProbe(config_path, overrides)

    @staticmethod
    def _free_benchmark(config_path, overrides):
        return FreeBenchmark(config_path, overrides)

    def _open(self, config_path, overrides):
        if overrides and overrides.get("task") == "isolate":
            self._open_other(lambda: Isolation(overrides["reference"], overrides["dump_path"],
                                               overrides.get("step")))
            return
        overrides = custom_apis.with_file(overrides)
        self._loads = load.settings_of(config_path, overrides)
        if self._loads is not None and not self._loads["dump_after_load"]:
            self._open_other(lambda: load.LoadOnly(self._loads))
        else:
            super()._open(config_path, overrides)

    def _make_session(self, *arguments):
        return super()._make_session(*arguments) if self._loads is None else load.LoadingSession(*arguments)

    @classmethod
    def isolate(cls, reference, output="./isolated", step=None):
        """In place of PrecisionDebugger(...): the debugger whose start(model), stop() and step() run
        one step on the values of `reference`, the dump_path of a good run with tensors of modules
        (task tensor, level L0 or mix), and judge each module alone. Rows go to
        `output`/step<N>/rank<R>/isolate.csv. `step`: which one; the first of the reference unless
        given. Parameters, buffers and random state are then as before the step."""
        debugger = cls.__new__(cls)
        if debugger._session is None:
            debugger._open(None, {"task": "isolate", "reference": reference, "dump_path": output,
                                  "step": step})
        return debugger


def module_dump(module, dump_name):
    """From here to module_dump_end only `module` is recorded, as Module.{dump_name}.{class}: not
    its children, no APIs."""
    if not isinstance(module, torch.nn.Module):
        raise TypeError("module_dump takes a torch.nn.Module, not %s" % type(module).__name__)
    if not isinstance(dump_name, str):
        raise TypeError("the name of a module_dump is a text, not %s" % type(dump_name).__name__)
    debugger = PrecisionDebugger._existing()
    session, modules = debugger._session, debugger._hooks.modules
    if modules.add_single(module, dump_name):
        session.apis_off = True
        session.switch()
        modules.install()


def module_dump_end():
    """API calls are recorded again."""
    debugger = PrecisionDebugger._existing()
    session = debugger._session
    debugger._hooks.modules.end_single()
    session.apis_off = False
    session.switch()
