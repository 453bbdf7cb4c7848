"""Collectives that are still under way when their call returns."""
from msprobe import _native
from msprobe._apis import Place
from msprobe._session import report


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
    """Nobody waits here: outputs are recorded when the program waits, or when the step ends.
    `record(name, args, kwargs)` does it."""

    def __init__(self, record=_native.later_output):
        self._record = record
        self._calls = {}
        self._places = {}

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
        if handle_type in self._places or not hasattr(handle_type, "wait"):
            return
        original = handle_type.wait
        pending = self

        def wait(self, *args, **kwargs):
            result = original(self, *args, **kwargs)
            pending._finished(self)
            return result

        place = Place(handle_type, "wait", wait)
        place.put()
        self._places[handle_type] = place

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
        for place in self._places.values():
            place.take()
        self._places.clear()
