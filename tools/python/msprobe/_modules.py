"""Calls of modules: __call__ of their class is replaced while modules are recorded.

One mechanism for every framework: keyword arguments, results and gradients of both ends are seen
alike.
"""
import contextlib

from msprobe import _kinds, _native
from msprobe._session import guarded, log, report


class Known:
    """A module that is recorded, under the name it has below the model."""

    def __init__(self, module, base, compiled=False):
        self.module = module  # held: its id is the key
        self.base = base
        self.compiled = compiled
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


class ModuleHooks:
    """Which modules are recorded, and the replacement of __call__. A framework's subclass says what
    a module is."""

    word = "Module"  # names begin with it
    owner = None  # the class of all modules

    def __init__(self, session, without_hooks):
        self._session = session
        self._known = {}
        self._single = {}
        self._models = {}
        self._compiled = {}
        self._without_hooks = without_hooks
        self._window = None
        self._original = None

    # ---- what a framework says ----

    @staticmethod
    def named(root):
        """(path, module) of a model and all that is in it; the model's own path is empty."""
        return root.named_modules()

    @staticmethod
    def class_name(module):
        return type(module).__name__

    @staticmethod
    def is_compiled(module):
        """Whether what happens inside its calls cannot be seen."""
        return False

    def is_recorded(self, module, path):
        return True

    @staticmethod
    def parameters(module):
        """{name: parameter} of the module itself."""
        return {}

    @staticmethod
    def gradients_wanted():
        return True

    def call_gradients(self, on_begin, on_end):
        """What watches the gradients at both ends of one call."""
        raise NotImplementedError

    @staticmethod
    def accumulated(parameter, gradient):
        """The gradient of a parameter after several backward passes."""
        return gradient

    # ---- what is recorded ----

    def add_model(self, model):
        listed = isinstance(model, (list, tuple))
        for index, root in enumerate(model if listed else [model]):
            if id(root) in self._models:
                continue
            self._models[id(root)] = root  # held: its id stays its own
            inside_compiled = set()
            for path, module in self.named(root):
                if id(module) in inside_compiled or id(module) in self._known:
                    continue
                if self.is_compiled(module):
                    self._say_compiled(path or "the model")
                    inside_compiled.update(id(part) for _, part in self.named(module))
                    self._compiled[id(module)] = module
                if path:
                    self._add(module, "%d.%s" % (index, path) if listed else path)

    def _say_compiled(self, path):
        self._session.say_once(
            _kinds.LOG_WARNING,
            "%s is compiled: what happens inside it cannot be seen, only what goes in and comes out"
            % path)

    def _add(self, module, path):
        if self.is_recorded(module, path):
            self._known[id(module)] = self._make_known(module, path, id(module) in self._compiled)

    def _make_known(self, module, path, compiled=False):
        return Known(module, "%s.%s.%s" % (self.word, path, self.class_name(module)), compiled)

    def add_single(self, module, name):
        """Records one module, without its children, from module_dump to module_dump_end."""
        if id(module) in self._known:
            log(_kinds.LOG_INFO, "%s is recorded already: module_dump changes nothing" % name)
            return False
        known = self._make_known(module, name)
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
        self._original = self.owner.__call__
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

        self.owner.__call__ = call

    @contextlib.contextmanager
    def away(self):
        """Modules are called as they were."""
        installed = self.installed
        self.remove()
        try:
            yield
        finally:
            if installed:
                self.install()

    def remove(self):
        if self._original is not None:
            self.owner.__call__ = self._original
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
            if self.gradients_wanted():
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
            _native.module_forward(name, passed_args, passed_kwargs, output,
                                   self.parameters(known.module))
            self._expect_gradients(known)
        except Exception as error:
            report(name, error)
        if gradients is not None:
            try:
                passed = gradients.pass_output(output)
                known.in_place = known.in_place or getattr(gradients, "overwritten", False)
                return passed
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
        """The compiler traces the framework's own functions, not stand-ins."""
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

        return self.call_gradients(begin, end)

    # ---- gradients of parameters ----

    def _expect_gradients(self, known):
        session = self._session
        if known.gradients_asked == session.generation:
            return
        known.gradients_asked = session.generation
        names = [name for name, parameter in self.parameters(known.module).items()
                 if parameter.requires_grad]
        if not names or not _native.gradients_expected(known.base, names):
            return
        if known.handles is None:
            known.handles = [self._watch(known, name) for name in names]

    def _watch(self, known, name):
        @guarded
        def on_gradient(gradient):
            if self._session.recording:
                total = self.accumulated(self.parameters(known.module).get(name), gradient)
                _native.parameter_gradient(known.base, name, total)

        return self._session.hooks.watch_gradient(self.parameters(known.module)[name], on_gradient)
