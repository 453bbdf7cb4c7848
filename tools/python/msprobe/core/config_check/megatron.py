"""The arguments of a program that is trained with Megatron."""
import functools
import importlib

from msprobe.core.config_check import notice

_DEEPEST = 20


class Arguments:
    """Remembers the first arguments that megatron.training.get_args gives."""

    def __init__(self):
        self._module = None
        self._original = None
        self._replacement = None
        self._first = None
        self._looked = False

    def install(self):
        if self._looked:
            return
        self._looked = True
        try:
            self._module = importlib.import_module("megatron.training")
            original = self._module.get_args
        except Exception:  # not installed, or not for this machine: nothing depends on it
            notice.info("No megatron find.")
            return
        arguments = self

        @functools.wraps(original)
        def get_args(*args, **kwargs):
            result = original(*args, **kwargs)
            if result and arguments._first is None:
                arguments._first = result
            return result

        self._original, self._replacement = original, get_args
        self._module.get_args = get_args

    def restore(self):
        if self._replacement is not None and self._module.get_args is self._replacement:
            self._module.get_args = self._original
        self._replacement = None
        self._looked = False

    def as_json(self):
        """{name: value}; what JSON cannot express is None. None when there are no arguments."""
        if self._first is None and self._replacement is not None:
            try:
                self._replacement()
            except Exception:  # nobody has set them yet
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
