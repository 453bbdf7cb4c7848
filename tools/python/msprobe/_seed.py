"""Runs that can be repeated, as far as no framework is concerned."""
import os
import random

from msprobe import _native
from msprobe._intercept.runtime import log

_MAX_SEED = 2**32 - 1


def check(seed, mode, rm_dropout, is_enhanced=False):
    """Raises where an argument of seed_all is wrong."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= _MAX_SEED:
        raise ValueError("a seed is an integer from 0 to %d, not %r" % (_MAX_SEED, seed))
    for name, value in (("mode", mode), ("rm_dropout", rm_dropout), ("is_enhanced", is_enhanced)):
        if not isinstance(value, bool):
            raise ValueError("%s is True or False, not %r" % (name, value))


def seed_all(seed, mode, *framework_steps):
    """Seeds Python and numpy, then runs the steps of the framework."""
    try:
        _seed_python(seed, mode)
        for step in framework_steps:
            step()
    except Exception as error:  # a missing device must not end the training
        log(_native.LOG_ERROR, "seed_all could not do everything: %s" % error)


def _seed_python(seed, mode):
    random.seed(seed)
    os.environ["PYTHONHASHSEED"] = str(seed)
    os.environ["HCCL_DETERMINISTIC"] = str(mode)
    try:
        import numpy
    except ImportError:
        return
    numpy.random.seed(seed)


def check_probability(p):
    if not 0.0 <= p <= 1.0:
        raise ValueError("a dropout probability lies between 0 and 1, not %s" % p)
