"""Calls of modules: Module.__call__ is replaced while modules are recorded.

One mechanism for every PyTorch: keyword arguments, results and gradients of both ends are seen alike.
"""
import torch

from msprobe import _kinds, _native
from msprobe._session import guarded, log, report
from msprobe.pytorch.gradients import CallGradients


class _Known:
    """A module that is recorded, under the name it has below the model."""

    def __init__(self, module, path, compiled=False):
        self.module = module  # held: its id is the key
        self.compiled = compiled
        # A compiled module keeps the name of what was compiled: dumps of both can be compared.
        original = getattr(module, "_orig_mod", module) if compiled else module
        self.base = "Module.%s.%s" % (path, type(original).__name__)
        self.calls = 0
        self.generation = -1
        self.gradients_asked = -1
        self.handles = None
        self.in_place = getattr(module, "inplace", False) is True

    def next_call(self, generation):
        if self.generation != generation:
            self.generation = generation
            self.calls = 0
        number = self.calls
        self.calls += 1
        return number

    def parameters(self):
        return {name: parameter for name, parameter in self.module._parameters.items()
                if parameter is not None}


def _is_compiled(module):
    return (type(module).__name__ == "OptimizedModule"
            or getattr(module, "_compiled_call_impl", None) is not None)


class ModuleHooks:
    """Which modules are recorded, and the replacement of Module.__call__."""

    def __init__(self, session, without_hooks):
        self._session = session
        self._known = {}
        self._single = {}
        self._models = set()
        self._compiled = {}
        self._without_hooks = without_hooks
        self._window = None
        self._original = None

    # ---- what is recorded ----

    def add_model(self, model):
        if id(model) in self._models:
            return
        self._models.add(id(model))
        listed = isinstance(model, (list, tuple))
        for index, root in enumerate(model if listed else [model]):
            inside_compiled = set()
            for path, module in root.named_modules():
                if id(module) in inside_compiled or id(module) in self._known:
                    continue
                if _is_compiled(module):
                    self._say_compiled(path or "the model")
                    inside_compiled.update(id(part) for part in module.modules())
                    self._compiled[id(module)] = module
                if path:
                    self._add(module, "%d.%s" % (index, path) if listed else path)

    def _say_compiled(self, path):
        self._session.say_once(
            _kinds.LOG_WARNING,
            "%s is compiled (torch.compile): what happens inside it cannot be seen, only what goes in "
            "and comes out" % path)

    def _add(self, module, path):
        if isinstance(module, torch.jit.ScriptModule):
            self._session.say_once(
                _kinds.LOG_WARNING,
                "%s is compiled by TorchScript: its calls cannot be seen" % path)
        elif type(module).__name__ != "FullyShardedDataParallel":
            self._known[id(module)] = _Known(module, path, id(module) in self._compiled)

    def add_single(self, module, name):
        """Records one module, without its children, from module_dump to module_dump_end."""
        if id(module) in self._known:
            log(_kinds.LOG_INFO, "%s is recorded already: module_dump changes nothing" % name)
            return False
        known = _Known(module, name)
        self._known[id(module)] = known
        self._single[id(module)] = known
        return True

    def end_single(self):
        for key, known in self._single.items():
            self._drop_handles(known)
            self._known.pop(key, None)
        self._single.clear()

    def set_window(self, model, token_range):
        """Recording is on only in these calls (counted from 0) of the model."""
        root = model[0] if isinstance(model, (list, tuple)) else model
        self._window = [id(root), tuple(token_range), 0] if token_range is not None else None

    # ---- in place ----

    @property
    def installed(self):
        return self._original is not None

    def install(self):
        if self._original is not None:
            return
        self._original = torch.nn.Module.__call__
        original, known_modules, hooks = self._original, self._known, self

        def call(self, *args, **kwargs):
            known = known_modules.get(id(self))
            if known is not None:
                return hooks._record(known, self, args, kwargs)
            if hooks._window is not None and hooks._window[0] == id(self):
                hooks._move_window()
            if id(self) in hooks._compiled:
                return hooks._call_compiled(self, args, kwargs)
            return original(self, *args, **kwargs)

        torch.nn.Module.__call__ = call

    def remove(self):
        if self._original is not None:
            torch.nn.Module.__call__ = self._original
            self._original = None

    def forget(self):
        """No module is recorded any more; gradient hooks are taken off."""
        self.remove()
        for known in self._known.values():
            self._drop_handles(known)
        self._known.clear()
        self._single.clear()
        self._models.clear()
        self._compiled.clear()

    @staticmethod
    def _drop_handles(known):
        for handle in known.handles or ():
            handle.remove()
        known.handles = None

    def _move_window(self):
        _, (first, last), index = self._window
        self._window[2] = index + 1
        inside = first <= index <= last and self._session.step_open
        if inside != self._session.recording:
            self._session.recording = inside
            self._session.switch()

    # ---- one call ----

    def _record(self, known, module, args, kwargs):
        number = known.next_call(self._session.generation)
        if not self._session.recording:
            return self._call(known, module, args, kwargs)
        name = "%s.forward.%d" % (known.base, number)
        gradients = None
        passed_args, passed_kwargs = args, kwargs
        try:
            _native.module_enter(name, False)
            if torch.is_grad_enabled():
                gradients = self._gradients(known, number)
                passed_args, passed_kwargs = gradients.pass_inputs(args, kwargs, known.in_place)
        except Exception as error:
            report(name, error)
            gradients = None
            passed_args, passed_kwargs = args, kwargs
        try:
            output = self._call(known, module, passed_args, passed_kwargs)
        except BaseException:
            _native.module_abandon(name)
            raise
        try:
            _native.module_forward(name, passed_args, passed_kwargs, output, known.parameters())
            self._expect_gradients(known)
        except Exception as error:
            report(name, error)
        if gradients is not None:
            try:
                return gradients.pass_output(output)
            except Exception as error:
                report(name, error)
        return output

    def _call(self, known, module, args, kwargs):
        if known.compiled:
            return self._call_compiled(module, args, kwargs)
        # A call that began before stop() may end after the hooks were taken away.
        original = self._original if self._original is not None else type(module).__call__
        return original(module, *args, **kwargs)

    def _call_compiled(self, module, args, kwargs):
        """The compiler traces PyTorch's own functions, not stand-ins."""
        with self._without_hooks():
            return module(*args, **kwargs)

    def _gradients(self, known, number):
        session, generation = self._session, self._session.generation
        name = "%s.backward.%d" % (known.base, number)

        def wanted():
            return session.recording and session.generation == generation

        def begin():
            if wanted():
                _native.module_enter(name, True)

        def end(of_outputs, of_inputs):
            if wanted():
                _native.module_backward(name, of_outputs, of_inputs)

        return CallGradients(begin, end)

    # ---- gradients of parameters ----

    def _expect_gradients(self, known):
        session = self._session
        if known.gradients_asked == session.generation:
            return
        known.gradients_asked = session.generation
        names = [name for name, parameter in known.parameters().items()
                 if parameter.requires_grad]
        if not names or not _native.gradients_expected(known.base, names):
            return
        if known.handles is None:
            known.handles = [self._watch(known, name) for name in names]

    def _watch(self, known, name):
        @guarded
        def on_gradient(gradient):
            if self._session.recording:
                total = _accumulated(known.module._parameters.get(name), gradient)
                _native.parameter_gradient(known.base, name, total)

        return known.module._parameters[name].register_hook(on_gradient)


def _accumulated(parameter, gradient):
    """What .grad holds after this gradient: several backward passes of a step add up."""
    if parameter is None or parameter.grad is None:
        return gradient
    before = _native.inside(True)
    try:
        with torch.no_grad():
            return parameter.grad + gradient
    except Exception:  # of another layout or size: this pass alone
        return gradient
    finally:
        _native.inside(before)
