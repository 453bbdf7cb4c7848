"""Calls of torch.nn.Module."""
import torch

from msprobe import _modules, _native
from msprobe.pytorch import patches
from msprobe.pytorch.gradients import CallGradients, OwnGradients

# Packages whose classes compute what their names say.
_FRAMEWORKS = ("torch.nn.modules.", "torch_npu.", "apex.", "transformers.", "transformer_engine.")
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
# Settings of embeddings that change gradients; no dump of modules records them.
_GRADIENT_SETTINGS = ("max_norm", "scale_grad_by_freq", "sparse")
_all_modules = torch.nn.modules.module


class ModuleHooks(_modules.ModuleHooks):
    """Which modules are recorded."""

    owner = torch.nn.Module
    computed = None  # called with the gradient that arrives at a parameter

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

    def call_gradients(self, known, recorded, own):
        return CallGradients(recorded, lambda: self._say_hidden(known.base), own=own)

    def record_parameter_gradient(self, known, name, parameter, gradient):
        super().record_parameter_gradient(known, name, parameter, gradient)
        if self.computed is not None:
            self.computed(known, name, gradient)

    def own_gradients(self, known, module):
        if (self._session.task != "tensor" or module._modules
                or any(getattr(module, name, None) for name in _GRADIENT_SETTINGS)
                or getattr(module, "padding_idx", None) is not None):
            return None
        names = [name for name, parameter in module._parameters.items()
                 if parameter is not None and parameter.requires_grad and parameter.is_leaf]
        return OwnGradients(module, names) if names else None

    def alteration(self, module):
        if self._session.task != "tensor":
            return ""
        kind = type(module)
        if "forward" in module.__dict__:
            return "its forward was replaced"
        if not all(str(getattr(part, "__module__", "")).startswith(_FRAMEWORKS)
                   for part in (kind, kind.forward)):
            return "its forward is the script's own"
        if any(getattr(module, name, None) or getattr(_all_modules, "_global" + name, None)
               for name in _HOOKS):
            return "it has hooks"
        return ""

    def _say_hidden(self, base):
        self._session.say_once(
            _native.LOG_WARNING,
            "%s: the gradients of its inputs cannot be distinguished in the graph of its call: they "
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
