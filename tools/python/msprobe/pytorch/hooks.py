"""All hooks of PyTorch together, as the session switches them on and off."""
import weakref

import torch

from msprobe import _native
from msprobe._intercept.optimizer_steps import EveryStep
from msprobe._intercept.slots import Slots
from msprobe._hooks import ApiBackward, CommonHooks
from msprobe._intercept import gradients
from msprobe._intercept.runtime import described, guarded, own_work
from msprobe.pytorch import distributed, layout, patches, values
from msprobe.pytorch.api_hooks import ApiHooks
from msprobe.pytorch.custom_apis import CustomApis
from msprobe.pytorch.device_statistics import DeviceStatistics
from msprobe.pytorch.gradients import CallGradients
from msprobe.pytorch.kernel_dump import KernelDump
from msprobe.pytorch.module_hooks import ModuleHooks
from msprobe.pytorch.reduced_gradients import ReducedGradients
from msprobe.pytorch.repeat.repeats import Repeats


def _places(model):
    """[(what stands before the paths of its modules, model)] where no modules are recorded."""
    if isinstance(model, (list, tuple)):
        return [("%d." % index, root) for index, root in enumerate(model)]
    return [] if model is None else [("", model)]


class TorchHooks(CommonHooks):
    module_type = torch.nn.Module
    module_word = "torch.nn.Module"

    def __init__(self):
        super().__init__(ApiHooks())
        self._compiled = None

    def attach(self, session):
        super().attach(session)
        self.modules = ModuleHooks(session)
        settings = session.settings
        self.apis.record_operators(settings["custom_op_namespaces"])
        self._custom = CustomApis(self.apis, session)
        self._custom.look()
        self._device = DeviceStatistics(
            session.task in ("tensor", "overflow_check", "nan_check") or bool(settings.get("tensor_list"))
            or settings.get("summary_mode") not in (None, "statistics")
            or bool(settings.get("slice")) or bool(settings.get("request_id")))
        self._clip = Slots(lambda: patches.clip_places(session))
        self._optimizer = EveryStep(self._optimizer_begins, self._optimizer_ends)
        self._optimizer_open = []
        self._kernels = KernelDump(session, self.apis) if session.level == "L2" else None
        values.configure()
        _native.configure("later_output", self.pending.add)
        _native.configure("input_gradients", self._pass_inputs)
        _native.configure("unchanged", self._attach_unchanged)
        _native.configure("device_tensor", self._device.describe)
        self._reduced = ReducedGradients(session, self.modules)
        self._layout_of = None  # what layout.json was made of
        self._repeats = Repeats(session) if settings.get("repeat") else None
        _native.configure("repeats", self._repeats)
        self._watch_compiled(session)

    def _watch_compiled(self, session):
        if self._compiled is not None:
            self._compiled.close()
            self._compiled = None
        if session.level == "L2k":
            if not hasattr(torch, "compile"):
                session.say_once(_native.LOG_WARNING, "PyTorch %s compiles nothing: level L2k records nothing" % torch.__version__)
                return
            from msprobe.pytorch.compiled_kernels import CompiledKernels
            self._compiled = CompiledKernels(session)
            self._compiled.install()

    def rank(self):
        return distributed.rank()

    def tensor_types(self):
        return (torch.Tensor,)

    # ---- on and off ----

    def install(self, session, model, token_range):
        patches.recompute.hold(self)
        self._custom.look()
        super().install(session, model, token_range)
        if self._kernels is not None:
            self._kernels.install()
        if session.level == "mix":
            self._clip.put()
        if session.level == "mix" or self._reduced.wanted():
            self._optimizer.put()

    def settle(self, session):
        gradients.settle()

    def pause(self, session):
        super().pause(session)
        if self._kernels is not None:
            self._kernels.remove()
        self._clip.take()
        # The watch of optimizers stays: this may run inside one of its hooks.

    def finish_step(self, session):
        self._take_reduced_gradients()
        super().finish_step(session)
        if self._repeats is not None:
            self._repeats.finish_step()
        gradients.let_go()
        patches.recompute.release(self)
        self._optimizer_open.clear()

    def layout(self, session):
        models = self.modules.places() or _places(session.model)
        made_of = ([(place, weakref.ref(root)) for place, root in models], distributed.groups(), distributed.rank())
        if made_of == self._layout_of:
            return None
        self._layout_of = made_of
        return layout.text_of(layout.describe(models, lambda where, error: session.say_once(
            _native.LOG_WARNING, "layout.json is not complete: %s: %s" % (where, described(error)))))

    def flush(self, session):
        self._device.flush()

    def remove(self, session):
        super().remove(session)
        if session.finished and self._repeats is not None:
            self._repeats.finish_step()
            self._repeats.tell()
            self._repeats = None
        self._optimizer.take()
        patches.recompute.release(self)

    # ---- parents ----

    @guarded
    def _take_reduced_gradients(self):
        with own_work():
            self._reduced.finish_step()

    @guarded
    def _optimizer_begins(self):
        self._reduced.step_begins()
        if self._session.recording and self._session.level == "mix":
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
        call = CallGradients(ApiBackward(self._session, name), lambda: None, nested=False)
        passed_args, passed_kwargs = call.before(args, kwargs or {})
        return passed_args, passed_kwargs, call.after

    @guarded
    def _attach_unchanged(self, tensor, name):
        """For the extension: a function gave back the tensor it was given. Whether its gradient is
        recorded where the tensor crossed the boundary of a module."""
        session, generation = self._session, self._session.generation

        def record(gradient):
            if session.step_open and session.generation == generation:
                _native.api_backward(name, (gradient,), (gradient,))

        return gradients.attach_unchanged(tensor, record)
