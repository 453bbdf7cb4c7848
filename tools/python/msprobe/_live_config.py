"""A configuration that is read again while the program runs: the key dump_enable stands in it."""
import os
import time

from msprobe import _native
from msprobe._intercept.runtime import log

# A look costs a microsecond, but on a network disk it may cost more.
_SECONDS_BETWEEN_LOOKS = 0.5
# Defaults that other keys decide about: the user has not set them.
_UNSEEN = ("enable_dataloader",)


def _signature(path):
    try:
        status = os.stat(path)
    except OSError:
        return None  # it is being replaced, or gone: what was read holds
    return status.st_mtime_ns, status.st_size


class LiveConfig:
    """Watches one file. `read()` reads it and gives the settings, or raises ValueError."""

    def __init__(self, path, read):
        self.path = os.path.abspath(path)
        self._read = read
        self._seen = _signature(self.path)
        self._looked = time.monotonic()
        self._told = None

    def changed(self):
        """Whether the file is another one than that which was read last."""
        now = time.monotonic()
        if now - self._looked < _SECONDS_BETWEEN_LOOKS:
            return False
        self._looked = now
        signature = _signature(self.path)
        return signature is not None and signature != self._seen

    def read(self):
        """What read() gives, or None where the file cannot be used, which is reported; it is tried again
        at the next look."""
        signature = _signature(self.path)
        try:
            settings = self._read(self.path)
        except (RuntimeError, ValueError) as error:
            if str(error) != self._told:
                self._told = str(error)
                log(_native.LOG_WARNING, "the configuration has changed and cannot be used: nothing is "
                                         "recorded until it is right. %s" % error)
            return None
        self._seen = signature
        self._told = None
        return settings


def differences(before, after):
    """What the user changed, as a text."""
    keys = [key for key in after if key not in _UNSEEN and before.get(key) != after[key]]
    keys += [key for key in before if key not in after]
    return ", ".join("%s: %s" % (key, _shown(after.get(key))) for key in keys) or "nothing"


def _shown(value):
    text = "as without it" if value is None else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
