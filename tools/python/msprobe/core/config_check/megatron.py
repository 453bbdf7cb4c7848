"""The arguments of a program that is trained with Megatron."""
import functools
import importlib

from msprobe._intercept.slots import Slot
from msprobe.core.config_check import notice

_DEEPEST = 20


class Arguments:
    """Remembers the first arguments that megatron.training.get_args gives."""

    def __init__(self):
        self._slot = None
        self._first = None
        self._looked = False

    def install(self):
        if self._looked:
            return
        self._looked = True
        try:
            module = importlib.import_module("megatron.training")
            original = module.get_args
        except Exception:  # not installed, or not for this machine: nothing depends on it
            notice.info("Megatron is not installed; its arguments are not recorded.")
            return
        arguments = self

        @functools.wraps(original)
        def get_args(*args, **kwargs):
            result = original(*args, **kwargs)
            if result and arguments._first is None:
                arguments._first = result
            return result

        self._slot = Slot(module, "get_args", get_args)
        self._slot.put()

    def restore(self):
        slot, self._slot = self._slot, None
        if slot is not None:
            slot.take()
        self._looked = False

    def as_json(self):
        """{name: value}; what JSON cannot express is None. None when there are no arguments."""
        if self._first is None and self._slot is not None:
            try:
                self._slot.replacement()
            except Exception:  # not set yet
                pass
        return None if self._first is None else _plain(vars(self._first))


def _plain(value, depth=0):
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if depth >= _DEEPEST:
        return None
    if isinstance(value, (list, tuple)):
        return [_plain(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item, depth + 1) for key, item in value.items()}
    return None
