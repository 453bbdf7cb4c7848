"""Work beside the training, and what becomes of its failures."""
from msprobe import _native
from msprobe._intercept.runtime import described, log, say_once


NOTHING_TO_CHANGE = "nothing to change"


class Skipped(Exception):
    """There is no second run; why."""


def is_out_of_memory(error):
    return isinstance(error, MemoryError) or "out of memory" in str(error)


class Attempts:
    """Work beside the training, which goes on whatever becomes of it."""

    def __init__(self, failed, free_memory):
        self._failed = failed  # what a message says of a call: "is not checked"
        self._free_memory = free_memory  # called when memory has run out
        self.skipped = {}  # why: how many

    def make(self, name, function, *arguments):
        """function(*arguments), or None where it fails."""
        try:
            return function(*arguments)
        except Skipped as reason:
            self._count(str(reason))
        except Exception as error:
            if is_out_of_memory(error):
                self._count("memory ran out")
                self._free_memory()
            else:
                self._count("the second run failed")
                say_once(_native.LOG_WARNING, "%s %s: %s" % (name, self._failed, described(error)),
                         subject=("failed", self._failed, name.rpartition(".")[0]))
        return None

    def tell(self, what):
        for reason, count in sorted(self.skipped.items()):
            log(_native.LOG_INFO, "  %s: %d calls (%s)" % (what, count, reason))

    def _count(self, reason):
        self.skipped[reason] = self.skipped.get(reason, 0) + 1
