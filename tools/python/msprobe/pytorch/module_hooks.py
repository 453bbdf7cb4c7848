"""Calls of torch.nn.Module."""
import torch

from msprobe import _modules, _native
from msprobe.pytorch import patches
from msprobe.pytorch.gradients import CallGradients


class ModuleHooks(_modules.ModuleHooks):
    """Which modules are recorded."""

    owner = torch.nn.Module

    @staticmethod
    def class_name(module):
        # A compiled module keeps the name of what was compiled: dumps of both can be compared.
        return type(getattr(module, "_orig_mod", module)).__name__

    @staticmethod
    def is_compiled(module):
        return (type(module).__name__ == "OptimizedModule"
                or getattr(module, "_compiled_call_impl", None) is not None)

    def is_recorded(self, module, path):
        if isinstance(module, torch.jit.ScriptModule):
            self._session.say_once(
                _native.LOG_WARNING,
                "%s is compiled by TorchScript: its calls cannot be seen" % path)
            return False
        return type(module).__name__ != "FullyShardedDataParallel"

    @staticmethod
    def parameters(module):
        return {name: parameter for name, parameter in module._parameters.items()
                if parameter is not None}

    @staticmethod
    def is_unshaped(parameter):
        return torch.nn.parameter.is_lazy(parameter)

    @staticmethod
    def gradients_wanted():
        return torch.is_grad_enabled()

    def gradients_expected(self):
        return torch.is_grad_enabled() or patches.in_checkpoint()

    def call_gradients(self, known, recorded):
        return CallGradients(recorded, lambda: self._say_hidden(known.base))

    def _say_hidden(self, base):
        self._session.say_once(
            _native.LOG_WARNING,
            "%s: the gradients of its inputs cannot be told apart in the graph of its call: they "
            "are null" % base)

    @staticmethod
    def accumulated(parameter, gradient):
        # FSDP puts views in the place of parameters: what they are of keeps the sum.
        if parameter is None or not parameter.is_leaf or parameter.grad is None:
            return gradient
        before = _native.inside(True)
        try:
            with torch.no_grad():
                return parameter.grad + gradient
        except Exception:  # of another layout or size: this pass alone
            return gradient
        finally:
            _native.inside(before)
