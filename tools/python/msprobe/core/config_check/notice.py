"""Messages. A training that is recorded goes on whatever happens here: problems are reported once."""
from msprobe import _native
from msprobe._intercept import runtime

_told = runtime.Told("config_check: ")


def info(text):
    runtime.log(_native.LOG_INFO, "config_check: " + text)


def once(text, subject=None):
    """A warning, unless one of the same subject was given before."""
    _told.once(_native.LOG_WARNING, text, subject)


def failed(what, error):
    """Tells that `what` is missing in the pack, and why; the same place fails many times, but is
    reported once."""
    once("%s: not recorded: %s" % (what, runtime.described(error)),
         subject=(what, type(error), runtime.where(error)))


def harmless(what):
    """For functions of ours inside a training: an error is reported, and None is returned."""
    return runtime.guard(lambda function, args, error: failed(what, error))
