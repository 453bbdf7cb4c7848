"""What everything of ours inside a training needs: the guard around our own work, messages and
messages that appear only once, forks and the end of the process, and when to keep out of the way.

The only owner of these: captures, monitors and the check of configurations call what is here."""
import atexit
import contextlib
import os
import traceback
import weakref
from multiprocessing import util as multiprocessing_util

from msprobe import _native

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


# ---- messages ----

def _encoded(text):
    """Names of files may hold bytes that are not UTF-8, which Python keeps as lone surrogates."""
    return text.encode("utf-8", "backslashreplace")


def log(level, text):
    _native.log(level, _encoded(text))


class Told:
    """Texts of one origin, each of which is reported once."""

    def __init__(self, prefix=""):
        self._prefix = prefix
        self._subjects = set()

    def once(self, level, text, subject=None):
        """Logs a text unless it, or another one of the same subject, was logged before."""
        subject = subject or text
        if subject not in self._subjects:
            self._subjects.add(subject)
            log(level, self._prefix + text)


say_once = Told().once


def where(error):
    """The line of code that raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return (" (%s:%d)" % (os.path.basename(frames[-1].filename), frames[-1].lineno)
            if frames else "")


def described(error):
    return "%s: %s%s" % (type(error).__name__, error, where(error))


def report(name, error):
    """Tells the log of the step that something of ours failed; the training goes on."""
    _native.report_error(_encoded(name), _encoded(described(error)))


def tell_launcher(reason):
    """msprobe dump, which started this program, says at its end why nothing was captured: src/commands/launcher.cpp."""
    path = os.environ.get("MSPROBE_DUMP_TRACE")
    if not path:
        return
    try:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            os.write(file, b"!" + _encoded(" ".join(reason.split())[:1000]) + b"\n")
        finally:
            os.close(file)
    except OSError:  # the launcher may be gone, or on another host
        pass


# ---- the training's own errors ----

# Where operations run later than they are called, reading a value may bring the error of an earlier
# one to light, which is reported nowhere else: it is raised into the training as soon as ours is done.
owed = []


def raise_owed():
    if owed:
        error = owed[0]
        owed.clear()
        raise error


# ---- the guard ----

def guard(tell):
    """A decorator for what is called by the training and must not raise into it: an error goes to
    tell(function, arguments, error), and None is returned."""

    def decorate(function):
        def call(*args, **kwargs):
            try:
                return function(*args, **kwargs)
            except Exception as error:  # training goes on
                tell(function, args, error)
                return None

        call.__doc__ = function.__doc__  # no more of it: hooks are made at every call of a module
        return call

    return decorate


# For hooks of the capture: their errors stand in the log of the step.
guarded = guard(lambda function, args, error: report(function.__name__, error))


@contextlib.contextmanager
def own_work():
    """What runs in this block is ours: no subscriber sees it."""
    before = _native.inside(True)
    try:
        yield
    finally:
        _native.inside(before)


def ask(subscriber, leave, otherwise, function, *values):
    """function(*values) of a subscriber, as work of ours. If it raises, the subscriber is switched
    off by leave(subscriber), and `otherwise` is returned."""
    before = _native.inside(True)
    try:
        return function(*values)
    except Exception as error:
        say_once(_native.LOG_ERROR,
                 "%s failed and is switched off: %s; training continues without it"
                 % (type(subscriber).__name__, described(error)),
                 subject=("switched off", id(subscriber)))
        leave(subscriber)
        return otherwise
    finally:
        _native.inside(before)


# ---- forks, and the end ----

def weakly(method):
    """Calls a bound method as long as its object is there."""
    reference = weakref.WeakMethod(method)

    def call():
        living = reference()
        if living is not None:
            living()

    return call


def at_exit(close):
    """close() runs when this process ends, perhaps twice; also where a forked process of
    multiprocessing does, which runs no other clean-up."""

    def end():
        global _ending
        _ending = True
        close()

    atexit.register(end)
    multiprocessing_util.Finalize(None, end, exitpriority=10)


def after_fork(function):
    """function() runs in every process that is forked from this one."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)


def is_ending():
    """Whether the process ends: what was left as it is is not reported any more."""
    return _ending


# ---- everything as it was, for a while ----

def accompany(companion):
    """`companion` is put with the first set of replaced attributes, and taken with the last."""
    global _companion
    _companion = companion


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
