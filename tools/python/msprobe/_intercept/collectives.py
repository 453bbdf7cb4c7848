"""Functions of communication, and what is still under way when its call returns."""
from msprobe import _native
from msprobe._intercept import runtime
from msprobe._intercept.functions import IN_BATCHES
from msprobe._intercept.in_place import Callers, layer_over
from msprobe._intercept.runtime import ask
from msprobe._intercept.slots import Holder, InPlace, Slot
from msprobe._intercept.runtime import report


class StandIn(Holder):
    """Stands for one function while somebody looks: its calls come here in place, or, where that is not possible, this object is at its
    attribute. It is equal to the function: PyTorch compares them by that. `recorder` is called in its place; observers have begin(name,
    args, kwargs), which says whether they want end(name, args, kwargs, result), or failed() when it raised."""

    _of = {}

    def __init__(self, function, name, holders):
        self._known = function
        self._name = name
        holders = [holder for holder in holders if getattr(holder, name, None) is function]
        layer = layer_over(function)
        self._function = layer or function  # what it calls in turn
        if layer is not None:
            # A batch calls what its messages name: those are calls like others.
            layer.observe(self, None if name in IN_BATCHES else Callers(function, [(holder, name) for holder in holders]))
            self._slots = [InPlace(holder, name, layer) for holder in holders]
        else:
            self._slots = [Slot(holder, name, self) for holder in holders
                           if not (name in IN_BATCHES and holder.__name__.endswith(".distributed_c10d"))]
        self._recorder = None
        self._observers = ()
        self.__name__ = name
        self.__doc__ = function.__doc__
        self.__wrapped__ = function

    @classmethod
    def of(cls, name, holders):
        """The one for this function of the first of these modules that has it, or None."""
        function = next((getattr(holder, name) for holder in holders if hasattr(holder, name)),
                        None)
        if isinstance(function, cls):
            return function
        if not callable(function) or isinstance(function, _native.Api):
            return None
        known = cls._of.get(name)
        if known is None or known._known is not function:
            known = cls._of[name] = cls(function, name, holders)
        return known

    def record(self, recorder):
        """`recorder` is called in place of the function; None: no longer."""
        self._recorder = recorder
        self._look()

    @property
    def function(self):
        return self._function

    def observe(self, observer):
        if all(known is not observer for known in self._observers):
            self._observers += (observer,)
        self._look()

    def leave(self, observer):
        self._observers = tuple(known for known in self._observers if known is not observer)
        self._look()

    def _look(self):
        if self._recorder is not None or self._observers:
            self.put()
            runtime.put(self)
        else:
            self.take()
            runtime.taken(self)

    def __call__(self, *args, **kwargs):
        if self._name == "isend" and "group_src" in kwargs:   # a batch did not take this object for the function
            kwargs["group_dst"] = kwargs.pop("group_src")
        function = self._recorder or self._function
        if not self._observers or runtime.is_traced():
            return function(*args, **kwargs)
        wanted = [observer for observer in self._observers
                  if ask(observer, self.leave, None, observer.begin, self._name, args, kwargs)]
        try:
            result = function(*args, **kwargs)
        except BaseException:
            for observer in reversed(wanted):
                ask(observer, self.leave, None, observer.failed)
            raise
        for observer in reversed(wanted):
            ask(observer, self.leave, None, observer.end, self._name, args, kwargs, result)
        return result

    def __eq__(self, other):
        return other is self or other is self._known

    def __hash__(self):
        return hash(self._known)


class RecordedCollective:
    """One function of communication among the stand-ins of the capture: as a slot."""

    def __init__(self, stand_in, make_recorder):
        self._stand_in = stand_in
        self._recorder = make_recorder(stand_in.function)

    def put(self):
        self._stand_in.record(self._recorder)

    def take(self):
        self._stand_in.record(None)


class _Waits:
    """The method `wait` of one type of handles, while somebody waits for what it finishes."""

    _of = {}

    def __init__(self, handle_type):
        self._listeners = ()
        waits, original = self, handle_type.wait

        def wait(self, *args, **kwargs):
            result = original(self, *args, **kwargs)
            for listener in waits._listeners:
                listener(self)
            return result

        self._slot = Slot(handle_type, "wait", wait)

    @classmethod
    def of(cls, handle_type):
        known = cls._of.get(handle_type)
        if known is None or known._slot.is_outdated():
            known = cls._of[handle_type] = cls(handle_type)
        return known

    def listen(self, listener):
        self._listeners += (listener,)
        self._slot.put()

    def leave(self, listener):
        self._listeners = tuple(known for known in self._listeners if known != listener)
        if not self._listeners:
            self._slot.take()


class _UnderWay:
    """A call whose output is there when all its handles have been waited for."""

    def __init__(self, record, name, args, kwargs, handles):
        self._record = record
        self.name = name
        self.args = args
        self.kwargs = kwargs
        self.open = len(handles)

    def record(self):
        if self.name is not None:
            name, self.name = self.name, None
            self._record(name, self.args, self.kwargs)
            self.args = self.kwargs = None


class PendingOutputs:
    """Nothing waits here: outputs are recorded when the program waits, or when the step ends.
    `record(name, args, kwargs)` does it."""

    def __init__(self, record=_native.later_output):
        self._record = record
        self._calls = {}
        self._waits = {}

    def add(self, result, name, args, kwargs):
        """Called by the extension after a call that returned a handle."""
        handles = list(result) if isinstance(result, (list, tuple)) else [result]
        handles = [handle for handle in handles if handle is not None]
        call = _UnderWay(self._record, name, args, kwargs, handles)
        if not handles:
            call.record()
        for handle in handles:
            self._watch(type(handle))
            # The handle is held: its id stays its own.
            self._calls.setdefault(id(handle), (handle, []))[1].append(call)

    def _watch(self, handle_type):
        if handle_type not in self._waits and hasattr(handle_type, "wait"):
            waits = self._waits[handle_type] = _Waits.of(handle_type)
            waits.listen(self._finished)

    def _finished(self, handle):
        for call in self._calls.pop(id(handle), (None, ()))[1]:
            call.open -= 1
            if call.open <= 0:
                try:
                    call.record()
                except Exception as error:  # training goes on
                    report(str(call.name), error)

    def finish(self):
        """The step ends: what was never waited for is recorded as it stands."""
        waiting, self._calls = self._calls, {}
        for _, calls in waiting.values():
            for call in calls:
                call.record()

    def remove(self):
        for waits in self._waits.values():
            waits.leave(self._finished)
        self._waits.clear()
