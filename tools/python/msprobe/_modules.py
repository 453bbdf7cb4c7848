"""Calls of modules as the capture records them, of every framework alike."""
import weakref

from msprobe import _native
from msprobe._intercept.modules import ModuleCalls
from msprobe._intercept.runtime import guarded, log, report


class Known:
    """A module that is recorded, under the name it has below the model."""

    def __init__(self, module, name, forget):
        self.reference = weakref.ref(module, forget)  # its id is the key as long as it lives
        self.name = name
        self.base = name  # with what stands before it in this step
        self.calls = 0
        self.generation = -1
        self.gradients_asked = -1
        self.own = None  # of its last call
        self.altered_in = -1  # generation
        self.handles = None
        self.watched = ()  # the names of the parameters with handles
        self.inside = ()  # what is directly in it
        self.root = None  # the model it is in

    def next_call(self, generation):
        if self.generation != generation:
            self.generation = generation
            self.calls = 0
        number = self.calls
        self.calls += 1
        return number


class _Model:
    """One that was given to start. Not held: a model that its script drops is dropped."""

    def __init__(self, root, place, forget):
        self.reference = weakref.ref(root, forget)
        self.modules = []
        self.generation = -1  # of the last step that it was started in
        self.place = place  # before the paths of its modules: its number among several models
        self.prefix = ""  # before that


class ModuleHooks:
    """Which modules are recorded, and what is recorded of their calls: a subscriber of
    _intercept.modules. A framework's subclass says what a module is."""

    word = "Module"  # names begin with it
    owner = None  # the class of all modules

    def __init__(self, session):
        self._session = session
        self._known = {}
        self._single = {}
        self._models = {}
        self._window = None
        self.only = self._known  # the modules whose calls are to be seen; while a window moves, all

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
    def is_unshaped(parameter):
        """Whether it gets its shape, and what can be watched, at the first call only."""
        return False

    @staticmethod
    def gradients_wanted():
        return True

    def gradients_expected(self):
        """Whether the parameters of the module that was just called may get gradients."""
        return self.gradients_wanted()

    def call_gradients(self, known, recorded, own):
        """What watches the gradients at both ends of one call, and tells `recorded`. `own`: what
        own_gradients gave."""
        raise NotImplementedError

    def own_gradients(self, known, module):
        """What can tell whether the gradient of a parameter is that of the call that begins alone;
        None: nothing can."""
        return None

    @staticmethod
    def alteration(module):
        """Why a call of the module computes more than its class does; empty: it does not."""
        return ""

    @staticmethod
    def accumulated(parameter, gradient):
        """The gradient of a parameter after several backward passes."""
        return gradient

    # ---- what is recorded ----

    def add_model(self, model):
        """The model is recorded, in this step under names that no other model has in it."""
        listed = isinstance(model, (list, tuple))
        for index, root in enumerate(model if listed else [model]):
            known = self._models.get(id(root))
            if known is None:
                known = self._find(root, "%d." % index if listed else "")
            if known.generation != self._session.generation:
                known.generation = self._session.generation
                self._name_apart(known)

    def places(self):
        """[(what stands before the paths of its modules, model)] of all that are there."""
        found = [(model.prefix + model.place, model.reference()) for model in self._models.values()]
        return [(place, root) for place, root in found if root is not None]

    def recorded(self, root):
        """What is known of the modules of a model that are still there, in their order."""
        model = self._models.get(id(root))
        return [known for known in (model.modules if model else ()) if known.reference() is not None]

    def _find(self, root, place):
        key = id(root)
        model = _Model(root, place, lambda _: self._models.pop(key, None))
        inside_compiled = set()
        by_path = {}
        for path, module in self.named(root):
            if id(module) in inside_compiled or id(module) in self._known:
                continue
            if self.is_compiled(module):
                self._say_compiled(path or "the model")
                inside_compiled.update(id(part) for _, part in self.named(module))
            if path and self.is_recorded(module, path):
                known = self._known[id(module)] = self._make_known(module, place + path)
                model.modules.append(known)
                by_path[path] = known
        self._models[key] = model
        self._note_holders(root, place, model, by_path)
        return model

    def _note_holders(self, root, place, model, by_path):
        """Which module is in which: parameters of those that are never called are used, too."""
        if not by_path or not self.is_recorded(root, self.class_name(root)):
            return
        holder = Known(root, place + self.class_name(root), None)
        holder.base = self._base(holder)
        model.modules.append(holder)
        for path, known in by_path.items():
            known.root = holder
            by_path.get(path.rpartition(".")[0], holder).inside += (known,)

    def _say_compiled(self, path):
        self._session.say_once(
            _native.LOG_WARNING,
            "%s is compiled: what happens inside it cannot be seen, only what goes in and comes out"
            % path)

    def _name_apart(self, model):
        """The first model of a step has the names as they are; of others that have the same ones,
        the names get a prefix."""
        if len(self._models) == 1:
            return
        here = [other for other in self._models.values()
                if other is not model and other.generation == model.generation]
        self._name(model, here)
        for other in self._models.values():  # perhaps called in this step, too
            if other is not model and other not in here:
                self._name(other, here + [model])

    def _name(self, model, others):
        taken = {known.base for other in others for known in other.modules}
        prefix, number = "", 0
        while any(self._base(known, prefix) in taken for known in model.modules):
            number += 1
            prefix = "model%d." % number
        model.prefix = prefix
        for known in model.modules:
            known.base = self._base(known, prefix)
        if prefix and model.generation == self._session.generation:
            self._session.say_once(
                _native.LOG_WARNING,
                "this step has another model with modules of the same names: those of the one that "
                "joined it are called %s.%s..." % (self.word, prefix))

    def _base(self, known, prefix=""):
        return "%s.%s%s" % (self.word, prefix, known.name)

    def _make_known(self, module, path):
        key = id(module)
        known = Known(module, "%s.%s" % (path, self.class_name(module)),
                      lambda _: self._known.pop(key, None))
        known.base = self._base(known)
        return known

    def add_single(self, module, name):
        """Records one module, without its children, from module_dump to module_dump_end."""
        if id(module) in self._known:
            log(_native.LOG_INFO, "%s is recorded already: module_dump changes nothing" % name)
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
        root = next(iter(model), None) if isinstance(model, (list, tuple)) else model
        self._window = [id(root), tuple(token_range), 0] if token_range is not None else None
        self.only = self._known if self._window is None else None

    # ---- in place ----

    def install(self):
        ModuleCalls.of(self.owner).subscribe(self)

    def remove(self):
        ModuleCalls.of(self.owner).unsubscribe(self)

    def drop_handles(self):
        """Nothing of ours stays at parameters between steps."""
        for model in self._models.values():
            for known in model.modules:
                self._drop_handles(known)
        for known in self._single.values():
            self._drop_handles(known)

    def forget(self):
        """No module is recorded any more."""
        self.remove()
        self.drop_handles()
        self._known.clear()
        self._single.clear()
        self._models.clear()

    @staticmethod
    def _drop_handles(known):
        for handle in known.handles or ():
            handle.remove()
        known.handles = None
        known.gradients_asked = -1

    def _move_window(self):
        _, (first, last), index = self._window
        self._window[2] = index + 1
        inside = first <= index <= last and self._session.step_open
        if inside != self._session.recording:
            self._session.recording = inside
            self._session.switch()

    # ---- one call ----

    def before(self, module, args, kwargs):
        """For _intercept.modules."""
        known = self._known.get(id(module))
        if known is None:
            if self._window is not None and self._window[0] == id(module):
                self._move_window()
            return None
        number = known.next_call(self._session.generation)
        if not self._session.recording:
            return None
        return _Call(self, known, module, number, args, kwargs)

    # ---- gradients of parameters ----

    def _expect_gradients(self, known):
        if not self.gradients_expected():
            return
        generation = self._session.generation
        if known.gradients_asked != generation:
            known.gradients_asked = generation
            parameters = self._trained(known) if known.handles is None else None
            names = known.watched if parameters is None else list(parameters)
            if names and _native.gradients_expected(known.base, names) and parameters:
                self._watch_all(known, parameters)
        # The model's own call is not seen: the first call in it stands for it.
        root = known.root
        if root is not None and root.generation != generation:
            root.generation = generation
            self._watch_uncalled(root)

    def _watch_uncalled(self, known):
        """The parameters of a module that was not called may be used by what is around it: they have
        an entry as soon as a gradient comes."""
        if known.handles is None and _native.gradients_expected(known.base, None):
            parameters = self._trained(known)
            if not any(map(self.is_unshaped, parameters.values())):
                self._watch_all(known, parameters)
        for inner in known.inside:
            self._watch_uncalled(inner)

    def _trained(self, known):
        module = known.reference()
        if module is None:
            return {}
        return {name: parameter for name, parameter in self.parameters(module).items()
                if parameter.requires_grad}

    def _watch_all(self, known, parameters):
        known.watched = list(parameters)
        watch = self._session.hooks.watch_gradient
        known.handles = [watch(parameter, _ParameterGradient(self, known, name, parameter))
                         for name, parameter in parameters.items()]

    def record_parameter_gradient(self, known, name, parameter, gradient):
        session = self._session
        if session.recording:
            if known.gradients_asked != session.generation:  # it was not called
                known.gradients_asked = session.generation
                _native.gradients_expected(known.base, known.watched)
            own = known.own
            if own is not None:
                _native.remark(_native.REMARK_OWN_GRADIENT, "%s.%s" % (known.base, name),
                               "1" if own.is_all(name, parameter, gradient) else "")
            _native.parameter_gradient(known.base, name, self.accumulated(parameter, gradient))

    def remark_alteration(self, known, module):
        """For a recheck, which knows classes."""
        if known.altered_in != self._session.generation:
            why = self.alteration(module)
            if why:
                known.altered_in = self._session.generation
                _native.remark(_native.REMARK_ALTERED_MODULE, known.base, why)


class _ParameterGradient:
    """What is called with the gradient of one parameter. Made anew in every step: small."""

    __slots__ = ("_hooks", "_known", "_name", "_parameter")

    def __init__(self, hooks, known, name, parameter):
        self._hooks = hooks
        self._known = known
        self._name = name
        self._parameter = weakref.ref(parameter)

    @guarded
    def __call__(self, gradient):
        self._hooks.record_parameter_gradient(self._known, self._name, self._parameter(), gradient)


class _Backward:
    """One backward of a module, recorded in the step of its forward."""

    __slots__ = ("_session", "_generation", "_known", "_name", "_own")

    def __init__(self, session, known, name, own):
        self._session = session
        self._generation = session.generation
        self._known = known
        self._name = name
        self._own = own

    def _is_wanted(self):
        return self._session.recording and self._session.generation == self._generation

    def begin(self):
        if self._own is not None:
            self._own.begin()
            for name in self._own.names:  # what an earlier pass made is not this one's
                _native.remark(_native.REMARK_OWN_GRADIENT, "%s.%s" % (self._known.base, name), "")
        if self._is_wanted():
            _native.module_backward_enter(self._name)

    def end(self, of_outputs, of_inputs):
        if self._is_wanted():
            _native.module_backward(self._name, of_outputs, of_inputs)


class _Call:
    """One recorded forward."""

    __slots__ = ("args", "kwargs", "_hooks", "_known", "_module", "_name", "_gradients")

    def __init__(self, hooks, known, module, number, args, kwargs):
        self.args = args
        self.kwargs = kwargs
        self._hooks = hooks
        self._known = known
        self._module = module
        self._name = "%s.forward.%d" % (known.base, number)
        self._gradients = None
        try:
            _native.module_enter(self._name, args, kwargs)
            if hooks.gradients_wanted():
                own = known.own = hooks.own_gradients(known, module)
                self._gradients = hooks.call_gradients(known, _Backward(
                    hooks._session, known, "%s.backward.%d" % (known.base, number), own), own)
                self.args, self.kwargs = self._gradients.before(args, kwargs)
        except Exception as error:
            report(self._name, error)
            if self._gradients is not None:
                self._gradients.abandon()
            self._gradients = None
            self.args, self.kwargs = args, kwargs

    def failed(self):
        _native.module_abandon(self._name)
        if self._gradients is not None:
            self._gradients.abandon()

    def after(self, output):
        hooks = self._hooks
        try:
            _native.module_forward(self._name, output, hooks.parameters(self._module), self.args,
                                   self.kwargs)
            hooks.remark_alteration(self._known, self._module)
            hooks._expect_gradients(self._known)
        except Exception as error:
            report(self._name, error)
        if self._gradients is not None:
            try:
                return self._gradients.after(output)
            except Exception as error:
                report(self._name, error)
        return output
