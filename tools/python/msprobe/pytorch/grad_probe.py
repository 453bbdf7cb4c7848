"""The task grad_probe for PyTorch: gradients before the step of any optimizer."""
import torch

from msprobe._grad_probe import GradProbe
from msprobe._intercept.optimizer_steps import EveryStep
from msprobe.pytorch import distributed, values
from msprobe.pytorch.monitor.optimizers import own_gradient


class TorchGradProbe(GradProbe):
    """monitor(model): any nn.Module."""

    def __init__(self, config_path, overrides):
        super().__init__(config_path, overrides)
        values.configure()
        self._steps = EveryStep(self.before_step, lambda: None)

    def rank(self):
        return distributed.rank()

    def tensor_types(self):
        return (torch.Tensor,)

    def named_parameters(self, watched):
        if not isinstance(watched, torch.nn.Module):
            raise TypeError("monitor() takes the model, a torch.nn.Module, not %s"
                            % type(watched).__name__)
        return watched.named_parameters()

    def gradient(self, parameter, given):
        gradient = own_gradient(parameter, True)
        if gradient is None:
            return None
        gradient = gradient.detach()
        to_local = getattr(gradient, "to_local", None)
        if to_local is not None:  # sharded: the part of this rank
            gradient = to_local()
        if gradient.layout is not torch.strided:
            gradient = gradient.to_dense()
        return gradient if gradient.device.type == "cpu" else gradient.cpu()

    def put_hooks(self, watched):
        self._steps.put()

    def take_hooks(self):
        self._steps.take()
