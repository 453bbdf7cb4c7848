"""Calls of one object, where its framework has no hook that sees all its arguments."""


class CallsOfOne:
    """Replaces owner.__call__ until it is removed: nothing of ours becomes part of the object, its
    copies or its file."""

    def __init__(self, owner, watched, before):
        self._owner = owner
        self._watched = watched
        self._original = owner.__call__
        handle, original = self, owner.__call__

        def call(called, *args, **kwargs):
            if called is handle._watched:
                before(args, kwargs)
            return original(called, *args, **kwargs)

        self._replacement = call
        owner.__call__ = call

    def remove(self):
        self._watched = None
        if vars(self._owner).get("__call__") is self._replacement:
            self._owner.__call__ = self._original
