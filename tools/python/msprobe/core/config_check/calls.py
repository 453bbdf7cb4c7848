"""Calls of one object, where its framework has no hook that sees all its arguments."""
from msprobe._intercept.modules import ModuleCalls


class CallsOfOne:
    """Sees calls of one object until it is removed: nothing of ours becomes part of the object, its
    copies or its file."""

    def __init__(self, owner, watched, before):
        self.only = {id(watched): watched}  # held: its id stays its own
        self._calls = ModuleCalls.of(owner)
        self._before = before
        self._calls.subscribe(self)

    def before(self, module, args, kwargs):
        self._before(args, kwargs)

    def remove(self):
        self.only = {}
        self._calls.unsubscribe(self)
