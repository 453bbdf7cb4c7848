"""All hooks of PyTorch together, as the session switches them on and off."""
import torch

from msprobe import _native
from msprobe._apis import Patches
from msprobe._hooks import CommonHooks
from msprobe._session import guarded
from msprobe.pytorch import distributed, patches, values
from msprobe.pytorch.api_hooks import ApiHooks
from msprobe.pytorch.device_statistics import DeviceStatistics
from msprobe.pytorch.gradients import CallGradients
from msprobe.pytorch.kernel_dump import KernelDump
from msprobe.pytorch.module_hooks import ModuleHooks


class TorchHooks(CommonHooks):
    module_type = torch.nn.Module
    module_word = "torch.nn.Module"

    def __init__(self):
        super().__init__(ApiHooks())

    def attach(self, session):
        super().attach(session)
        self.modules = ModuleHooks(session, self._without_hooks)
        settings = session.settings
        self._device = DeviceStatistics(
            session.task in ("tensor", "overflow_check") or bool(settings.get("tensor_list"))
            or settings.get("summary_mode") not in (None, "statistics"))
        self._recompute = Patches(patches.recompute_places)
        self._clip = Patches(lambda: patches.clip_places(session))
        self._optimizer = patches.OptimizerWatch(self._optimizer_begins, self._optimizer_ends)
        self._optimizer_open = []
        self._kernels = KernelDump(session, self.apis) if session.level == "L2" else None
        values.configure()
        _native.configure("later_output", self.pending.add)
        _native.configure("input_gradients", self._pass_inputs)
        _native.configure("device_tensor", self._device.describe)

    def rank(self):
        return distributed.rank()

    def tensor_types(self):
        return (torch.Tensor,)

    # ---- on and off ----

    def install(self, session, model, token_range):
        self._recompute.put()
        super().install(session, model, token_range)
        if self._kernels is not None:
            self._kernels.install()
        if session.level == "mix":
            self._clip.put()
            self._optimizer.put()

    def pause(self, session):
        super().pause(session)
        if self._kernels is not None:
            self._kernels.remove()
        self._clip.take()
        # The watch of optimizers stays: this may run inside one of its hooks.

    def finish_step(self, session):
        super().finish_step(session)
        self._recompute.take()
        self._optimizer_open.clear()

    def flush(self, session):
        self._device.flush()

    def remove(self, session):
        super().remove(session)
        self._optimizer.take()
        self._recompute.take()

    # ---- parents ----

    @guarded
    def _optimizer_begins(self):
        if self._session.recording:
            self._optimizer_open.append(True)
            _native.open_parent("optimizer")

    @guarded
    def _optimizer_ends(self):
        if self._optimizer_open:
            self._optimizer_open.pop()
            _native.close_parent("optimizer")

    # ---- gradients of an API's inputs ----

    def _pass_inputs(self, args, kwargs, name):
        """For the extension: arguments that report their gradients, and what watches the result."""
        session, generation = self._session, self._session.generation

        def end(of_outputs, of_inputs):
            if session.step_open and session.generation == generation:
                _native.api_backward(name, of_outputs, of_inputs)

        gradients = CallGradients(lambda: None, end)
        passed_args, passed_kwargs = gradients.pass_inputs(args, kwargs or {})

        def watch(result):
            node = _first_node(result)
            if node is not None:
                gradients.watch_output(node)

        return passed_args, passed_kwargs, watch


def _first_node(result):
    while isinstance(result, (list, tuple)) and result:
        result = result[0]
    if isinstance(result, dict):
        result = next((item for item in result.values() if isinstance(item, torch.Tensor)), None)
    return result.grad_fn if isinstance(result, torch.Tensor) and result.requires_grad else None
