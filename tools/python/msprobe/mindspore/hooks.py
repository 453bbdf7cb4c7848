"""All hooks of MindSpore together, as the session switches them on and off."""
import sys

import mindspore

from msprobe import _native
from msprobe._hooks import ApiBackward, CommonHooks
from msprobe._intercept import gradients as graph_gradients
from msprobe._session import LEVELS_WITH_APIS
from msprobe.mindspore import gradients, ranks, values
from msprobe.mindspore.api_hooks import ApiHooks, JitCalls, TorchApiHooks
from msprobe.mindspore.cells import CellHooks, PrimitiveHooks, TorchModuleHooks


def _is_static():
    return mindspore.get_context("mode") == mindspore.GRAPH_MODE


class _PrimitiveBackward(ApiBackward):
    """One backward of a Primitive. Its lists are those of the Python tools: gradients that came, those
    of inputs from the last one to the first."""

    __slots__ = ()

    def end(self, of_outputs, of_inputs):
        super().end(_present(of_outputs), _present(reversed(of_inputs)))


def _present(gradients_of_call):
    return tuple(gradient for gradient in gradients_of_call if gradient is not None)


class MindSporeHooks(CommonHooks):
    gradients_of_inputs = True
    module_type = mindspore.nn.Cell
    module_word = "mindspore.nn.Cell"

    def __init__(self):
        self._on_torch = values.torch_on_mindspore()
        super().__init__(TorchApiHooks() if self._on_torch else ApiHooks())
        self._primitives = PrimitiveHooks()
        self._jit = JitCalls()

    def attach(self, session):
        super().attach(session)
        if self._on_torch:
            self.modules = TorchModuleHooks(session, sys.modules["torch"])
            self.module_type, self.module_word = self.modules.owner, "torch.nn.Module"
        else:
            self.modules = CellHooks(session)
        if session.level == "L2":
            session.say_once(_native.LOG_WARNING, "level L2 is not captured from MindSpore: its own "
                                                 "dump (MINDSPORE_DUMP_CONFIG) records kernels")
        values.configure()
        _native.configure("later_output", self._add_pending)
        if gradients.available():
            _native.configure("input_gradients", self._pass_inputs)
        else:
            session.say_once(_native.LOG_WARNING, "this MindSpore has no Tensor.register_hook: "
                                                 "no gradients are recorded")

    def rank(self):
        return ranks.rank()

    def tensor_types(self):
        return values.tensor_types()

    def watch_gradient(self, tensor, on_gradient):
        return gradients.watch(tensor, on_gradient)

    # ---- on and off ----

    def install(self, session, model, token_range):
        if _is_static():
            session.say_once(_native.LOG_WARNING,
                             "MindSpore runs static graphs (GRAPH_MODE), which are not recorded: "
                             "mindspore.set_context(mode=mindspore.PYNATIVE_MODE)")
            return
        super().install(session, model, token_range)
        if session.level in LEVELS_WITH_APIS:
            if model is not None and not self._on_torch:
                self._primitives.add_model(model)
            self._primitives.install()
        self._jit.put()

    def settle(self, session):
        graph_gradients.settle()

    def pause(self, session):
        super().pause(session)
        self._primitives.remove()

    def finish_step(self, session):
        super().finish_step(session)
        graph_gradients.let_go()
        self._jit.take()

    def remove(self, session):
        super().remove(session)
        self._jit.take()
        if session.finished:
            self._primitives.forget()

    # ---- what calls give ----

    def _add_pending(self, result, name, args, kwargs):
        """Some collectives give (value, handle): the value is what there is to record."""
        items = list(result) if isinstance(result, (list, tuple)) else [result]
        handles = [item for item in items if hasattr(item, "wait")]
        of_result = [item for item in items if isinstance(item, values.tensor_types())]
        if of_result:
            args, kwargs = tuple(items), None
        self.pending.add(handles, name, args, kwargs)

    def _pass_inputs(self, args, kwargs, name):
        """For the extension: arguments that report their gradients, and what watches the result."""
        kind = _PrimitiveBackward if name.startswith("Primitive.") else ApiBackward
        call = gradients.of_call(kind(self._session, name), lambda: None, nested=False)
        passed_args, passed_kwargs = call.before(args, kwargs or {})
        return passed_args, passed_kwargs, call.after
