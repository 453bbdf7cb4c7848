"""Who asks for random numbers: the functions of a list, and the stacks from which they are called.

A call costs a walk over its frames, without their texts; these are made once per distinct stack.
"""
import functools
import itertools
import linecache
import os
import sys

from msprobe._intercept import runtime
from msprobe._intercept.slots import Holder, Slot
from msprobe.core.config_check import notice

# Stacks kept of one function: a program that generates code without end must not fill the memory.
_MOST_STACKS = 10000


def python_functions():
    """(name in the pack, holder, attribute) of what belongs to no framework."""
    import random
    for name in ("random", "randint", "uniform", "choice"):
        yield "random." + name, random, name
    try:
        import numpy
    except ImportError:
        return
    for name in ("rand", "randint", "choice", "normal"):
        yield "np.random." + name, numpy.random, name


class RandomCalls(Holder):
    """Counts calls between `install` and `restore`."""

    def __init__(self):
        self._slots = []
        self._stacks = {}  # function -> {positions: (frames, counter)}
        self._on = False
        # The calls until the last `restore`: {name: [{"count": n, "stack": [frame, ...]}]}, in
        # the order of first calls.
        self.result = {}

    def install(self, functions):
        """`functions`: (name, holder, attribute)."""
        self._on = True
        for name, holder, attribute in functions:
            original = getattr(holder, attribute, None)
            known = any(attribute == slot.name and holder is slot.holder for slot in self._slots)
            if original is None or known:
                continue
            slot = Slot(holder, attribute, self._recording(name, original, holder, attribute),
                        tells=False)
            slot.put()
            self._slots.append(slot)
        runtime.put(self)

    def replacements(self):
        """(original, replacement) of all."""
        return [(slot.replacement.__wrapped__, slot.replacement) for slot in self._slots]

    def restore(self):
        """The functions are the originals again; what others have put over ours stays."""
        if not self._on:
            return
        self._on = False
        self.take()
        runtime.taken(self)
        self._slots = []
        stacks, self._stacks = self._stacks, {}
        self.result = _counted(stacks)

    def _recording(self, name, original, holder, attribute):
        recorder, stacks = self, {}

        @functools.wraps(original)
        def function(*args, **kwargs):
            if recorder._on:
                recorder._note(name, stacks, sys._getframe(1))
            return original(*args, **kwargs)

        # It is found where it stands, so that it can be pickled as its original can.
        function.__module__ = getattr(holder, "__module__", None) or holder.__name__
        function.__qualname__ = ("%s.%s" % (holder.__qualname__, attribute)
                                 if isinstance(holder, type) else attribute)
        return function

    def _note(self, name, stacks, frame):
        try:
            positions, at = [], frame
            while at is not None:
                positions.append(id(at.f_code))
                positions.append(at.f_lasti)
                at = at.f_back
            positions = tuple(positions)
            found = stacks.get(positions)
            if found is None:
                if len(stacks) >= _MOST_STACKS:
                    notice.once("%s is called from more than %d places: later ones are not "
                                "recorded" % (name, _MOST_STACKS))
                    return
                self._stacks.setdefault(name, stacks)
                # A counter of its own kind: adding to a number is not safe with threads.
                found = stacks.setdefault(positions, (_frames(frame), itertools.count()))
            next(found[1])
        except Exception as error:
            notice.failed("calls of " + name, error)


def _counted(functions):
    result = {}
    for name, stacks in functions.items():
        counts = {}
        for frames, counter in list(stacks.values()):
            texts = tuple(_text(*frame[1:]) for frame in frames)
            counts[texts] = counts.get(texts, 0) + next(counter)
        if counts:
            result[name] = [{"count": count, "stack": list(texts)}
                            for texts, count in counts.items()]
    return result


def _frames(frame):
    """(code, file, line, function) from the outermost frame on. The code is held so that its
    address stays its own."""
    frames = []
    while frame is not None:
        code = frame.f_code
        frames.append((code, os.path.abspath(code.co_filename), frame.f_lineno, code.co_name))
        frame = frame.f_back
    return frames[::-1]


def _text(file, line, function):
    return "File %s, line %s, in %s, %s" % (file, line, function,
                                            linecache.getline(file, line or 0).strip())
