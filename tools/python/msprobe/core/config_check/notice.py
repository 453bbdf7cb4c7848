"""Messages. A training that is recorded goes on whatever happens here: problems are told once."""
import functools
import os
import traceback

from msprobe import _native

_told = set()


def info(text):
    _native.log(_native.LOG_INFO, "config_check: " + text)


def once(text, subject=None):
    """A warning, unless one of the same subject was given before."""
    subject = subject or text
    if subject not in _told:
        _told.add(subject)
        _native.log(_native.LOG_WARNING, "config_check: " + text)


def failed(what, error):
    """Tells that `what` is missing in the pack, and why; the same place fails many times, but is
    told once."""
    where = traceback.extract_tb(error.__traceback__)
    place = "%s:%d" % (os.path.basename(where[-1].filename), where[-1].lineno) if where else ""
    once("%s: not recorded: %s: %s (%s)" % (what, type(error).__name__, error, place),
         subject=(what, type(error), place))


def harmless(what):
    """For functions of ours inside a training: an error is told, and None is returned."""

    def decorate(function):
        @functools.wraps(function)
        def call(*args, **kwargs):
            try:
                return function(*args, **kwargs)
            except Exception as error:
                failed(what, error)
                return None

        return call

    return decorate
