"""Calls of modules. This is the one place that observes a class's __call__.

A subscriber has
    only: a dict whose keys are the ids of the modules it wants to see, or None for all;
    before(module, args, kwargs): None, or an object for this call with
        args, kwargs: what the module is called with,
        after(result): the result that the caller gets,
        failed(): the call raised.
Subscribers see a call in the order in which they subscribed, and its result in the opposite order.
"""
from msprobe._intercept import runtime
from msprobe._intercept.runtime import ask
from msprobe._intercept.slots import over


class SeenCall:
    """What `before` gives when there is nothing to change."""

    __slots__ = ("args", "kwargs")

    def __init__(self, args, kwargs):
        self.args = args
        self.kwargs = kwargs

    def after(self, result):
        return result

    def failed(self):
        pass


class ModuleCalls:
    """All calls of modules of one class of a framework."""

    _of = {}

    def __init__(self, owner):
        self._owner = owner
        self._subscribers = ()
        self._slot = None
        self._call = None

    @classmethod
    def of(cls, owner):
        """The one object for this class."""
        if owner not in cls._of:
            cls._of[owner] = cls(owner)
        return cls._of[owner]

    def subscribe(self, subscriber):
        if not self.has(subscriber):
            self._subscribers += (subscriber,)
            self.put()

    def unsubscribe(self, subscriber):
        self._subscribers = tuple(known for known in self._subscribers if known is not subscriber)
        if not self._subscribers:
            self.take()

    def has(self, subscriber):
        return any(known is subscriber for known in self._subscribers)

    # ---- in place ----

    def put(self):
        if self._slot is None and self._subscribers:
            self._slot = over(self._owner, "__call__", self._handler)
            self._slot.put()
            runtime.put(self)

    def take(self):
        if self._slot is not None:
            slot, self._slot = self._slot, None
            slot.take()
            runtime.taken(self)

    def _handler(self, original):
        calls = self

        def call(self, *args, **kwargs):
            # Not the present one: somebody wrapped it and keeps it. It passes on.
            if calls._slot is None or calls._call is not call or runtime.is_traced():
                return original(self, *args, **kwargs)
            return calls._dispatch(original, self, args, kwargs)

        self._call = call
        return call

    # ---- one call ----

    def _dispatch(self, original, module, args, kwargs):
        seen = []
        key = id(module)
        subscribers, done = self._subscribers, 0
        while done < len(subscribers):
            subscriber = subscribers[done]
            done += 1
            if subscriber.only is not None and key not in subscriber.only:
                continue
            call = ask(subscriber, self.unsubscribe, None,
                       subscriber.before, module, args, kwargs)
            if call is not None:
                seen.append((subscriber, call))
                args, kwargs = call.args, call.kwargs
            if self._subscribers is not subscribers:  # one begins with this very call
                known = subscribers[:done]
                subscribers = known + tuple(other for other in self._subscribers
                                            if all(other is not item for item in known))
        if not seen:
            return original(module, *args, **kwargs)
        try:
            result = original(module, *args, **kwargs)
        except BaseException:
            for subscriber, call in reversed(seen):
                ask(subscriber, self.unsubscribe, None, call.failed)
            raise
        for subscriber, call in reversed(seen):
            result = ask(subscriber, self.unsubscribe, result, call.after, result)
        if runtime.owed:
            runtime.raise_owed()
        return result
