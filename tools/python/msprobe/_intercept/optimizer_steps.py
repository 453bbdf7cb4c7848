"""The steps of one optimizer, seen from its own attribute, and those of all optimizers of PyTorch.

Of one, the instance is changed, not its class: others of that class are none of our business.
"""
import importlib
import types
import weakref

from msprobe._intercept.runtime import ask
from msprobe._intercept.slots import Slot, over


# ---- one optimizer ----

class _Steps:
    """The method of one optimizer that steps, while somebody listens. A listener has
    wants_begin(), begin(args), end()."""

    _of = weakref.WeakKeyDictionary()  # optimizer: {method: reference to its steps, which what is in the optimizer holds}

    def __init__(self, optimizer, method):
        self._optimizer = weakref.ref(optimizer)
        self._method = method
        self._listeners = ()
        self._slot = None

    @classmethod
    def of(cls, optimizer, method):
        methods = cls._of.setdefault(optimizer, {})
        steps = methods[method]() if method in methods else None
        if steps is None:
            steps = cls(optimizer, method)
            methods[method] = weakref.ref(steps)
        return steps

    def add(self, listener):
        self._listeners += (listener,)
        if self._slot is None:
            optimizer = self._optimizer()
            # Schedulers of learning rates wrap a step, too: nothing to tell anybody.
            self._slot = Slot(optimizer, self._method, self._replacement(optimizer), tells=False)
            self._slot.put()

    def remove(self, listener):
        self._listeners = tuple(known for known in self._listeners if known is not listener)
        if not self._listeners and self._slot is not None:
            slot, self._slot = self._slot, None
            slot.take()

    def _replacement(self, optimizer):
        steps, original = self, getattr(optimizer, self._method)

        def step(self, *args, **kwargs):
            slot = steps._slot
            # Not the present one: somebody wrapped it and keeps it. It passes on.
            if slot is None or slot.replacement is not bound[0]:
                return original(*args, **kwargs)
            return steps._step(original, args, kwargs)

        # What others left at the function, such as the mark of a learning rate scheduler, stays.
        step.__dict__.update(getattr(original, "__dict__", {}))
        step.__doc__ = getattr(original, "__doc__", None)
        # A bound method: schedulers ask for its function and its owner.
        bound = [types.MethodType(step, optimizer)]
        return bound[0]

    def _step(self, original, args, kwargs):
        listeners = self._listeners
        begins = [listener for listener in listeners if listener.wants_begin()]
        if begins:
            given = args

            def begin():
                for listener in begins:
                    ask(listener, self.remove, None, listener.begin, given)

            args, kwargs = _after_closure(begin, args, kwargs)
        result = original(*args, **kwargs)
        for listener in reversed(listeners):
            ask(listener, self.remove, None, listener.end)
        return result


class _Listener:
    """What a monitor hears of one optimizer."""

    def __init__(self, monitor, watched):
        self._monitor = monitor
        self._watched = watched

    def wants_begin(self):
        return self._monitor.measuring

    def begin(self, args):
        self._watched.update_arguments = args
        self._monitor.update_begins(self._watched)
        self._watched.update_arguments = ()

    def end(self):
        self._monitor.update_ends(self._watched)


def hook(monitor, watched, method="step"):
    """Makes the optimizer tell the monitor of its steps; returns what takes that back, and does not hold the optimizer."""
    steps = _Steps.of(watched.optimizer, method)
    listener = _Listener(monitor, watched)
    steps.add(listener)
    reference, of_listener = weakref.ref(steps), weakref.ref(listener)

    def unhook():
        living = reference()
        if living is not None:
            living.remove(of_listener())

    return unhook


def _after_closure(begin, args, kwargs):
    """Calls `begin`: now, or after the first run of the closure that computes the gradients."""
    named = "closure" in kwargs
    closure = kwargs.get("closure") if named else (args[0] if args else None)
    if not isinstance(closure, (types.FunctionType, types.MethodType)):
        begin()
        return args, kwargs
    begun = []

    def run(*arguments, **keywords):
        loss = closure(*arguments, **keywords)
        if not begun:
            begun.append(True)
            begin()
        return loss

    if named:
        return args, dict(kwargs, closure=run)
    return (run,) + tuple(args[1:]), kwargs


# ---- all optimizers of PyTorch ----

class _AllSteps:
    """Tells when any optimizer's step begins and ends, whatever wraps it."""

    def __init__(self):
        self._listeners = ()
        self._handles = []
        self._slots = []
        self.stepping = None

    def add(self, listener):
        if all(known is not listener for known in self._listeners):
            self._listeners += (listener,)
        if self._handles or self._slots:
            return
        optimizer = importlib.import_module("torch.optim.optimizer")
        if hasattr(optimizer, "register_optimizer_step_pre_hook"):
            self._handles = [
                optimizer.register_optimizer_step_pre_hook(lambda one, *_: self._tell("begin", one)),
                optimizer.register_optimizer_step_post_hook(lambda *_: self._tell("end"))]
            return
        # Before 2.0 every step runs under a profiler label of this form.
        label = importlib.import_module("torch.autograd.profiler").record_function
        self._slots = [over(label, "__enter__", lambda original: self._around_label(original, "begin")),
                       over(label, "__exit__", lambda original: self._around_label(original, "end"))]
        for slot in self._slots:
            slot.put()

    def remove(self, listener):
        self._listeners = tuple(known for known in self._listeners if known is not listener)
        if self._listeners:
            return
        for handle in self._handles:
            handle.remove()
        self._handles = []
        for slot in self._slots:
            slot.take()
        self._slots = []

    def _tell(self, what, optimizer=None):
        self.stepping = optimizer
        for listener in self._listeners:
            ask(listener, self.remove, None, getattr(listener, what))
        self.stepping = None

    def _around_label(self, original, what):
        def call(label, *args):
            of_optimizer = getattr(label, "name", "").startswith("Optimizer.step#")
            if of_optimizer and what == "end":
                self._tell(what)
            result = original(label, *args)
            if of_optimizer and what == "begin":
                self._tell(what)
            return result

        return call


_all_steps = _AllSteps()


def stepping():
    """The optimizer whose step begins, while a listener is called; None before PyTorch 2.0."""
    return _all_steps.stepping


class EveryStep:
    """Calls on_begin() and on_end() around the step of any optimizer, between put and take."""

    def __init__(self, on_begin, on_end):
        self.begin = on_begin
        self.end = on_end

    def put(self):
        _all_steps.add(self)

    def take(self):
        _all_steps.remove(self)
