"""What every interception needs: the guard around our own work, when to keep out of the way, and
what becomes of a subscriber that fails."""
import contextlib
import os
import traceback

from msprobe import _native

_said = set()
_ending = False
_in_place = {}  # by their ids, sets of replaced attributes in the order in which they were put
_companion = None  # in place while any of them is
_away = 0


def is_traced():
    """Whether something reads the program instead of running it: a tracer, a compiler, an
    exporter. Frameworks give their own."""
    return False


def trace_check(check):
    """From here on `check()` says whether the program is being traced."""
    global is_traced
    is_traced = check
    _native.configure("is_traced", check)


def process_ends():
    """From here on nobody wants to know what was left as it is."""
    global _ending
    _ending = True


def is_ending():
    return _ending


def say_once(level, text, subject=None):
    """Logs a text unless it, or another one of the same subject, was logged before."""
    subject = subject or text
    if subject not in _said:
        _said.add(subject)
        _native.log(level, text)


@contextlib.contextmanager
def own_work():
    """What runs in this block is ours: no subscriber sees it."""
    before = _native.inside(True)
    try:
        yield
    finally:
        _native.inside(before)


def where(error):
    """The line of code that raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return (" (%s:%d)" % (os.path.basename(frames[-1].filename), frames[-1].lineno)
            if frames else "")


def switched_off(subscriber, error):
    """Tells that a subscriber failed and sees nothing any more."""
    say_once(_native.LOG_ERROR,
             "%s failed and is switched off: %s: %s%s; the training goes on as if it had not been "
             "there" % (type(subscriber).__name__, type(error).__name__, error, where(error)),
             subject=("switched off", id(subscriber)))


def accompany(companion):
    """`companion` is put with the first set of replaced attributes, and taken with the last."""
    global _companion
    _companion = companion


# ---- everything as it was, for a while ----

def put(group):
    """`group` has replaced attributes; away() calls its take() and put()."""
    if id(group) not in _in_place:
        _in_place[id(group)] = group
        if len(_in_place) == 1 and _companion is not None:
            _companion.put()


def taken(group):
    if not _away and id(group) in _in_place:
        del _in_place[id(group)]
        if not _in_place and _companion is not None:
            _companion.take()


def leave_for_a_while():
    """Every attribute is as it was until come_back; may be nested."""
    global _away
    _away += 1
    if _away == 1:
        for group in reversed(list(_in_place.values())):
            group.take()


def come_back():
    global _away
    _away -= 1
    if _away == 0:
        for group in list(_in_place.values()):
            group.put()


@contextlib.contextmanager
def away():
    """In this block nothing is replaced: a compiler reads the framework's own functions."""
    leave_for_a_while()
    try:
        yield
    finally:
        come_back()
