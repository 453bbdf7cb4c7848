"""Runs that can be repeated: seeds, deterministic kernels, no dropout."""
import importlib
import inspect

import mindspore

from msprobe import _seed
from msprobe._intercept.slots import Slot

_FUNCTIONS = (("mindspore.ops", ("dropout", "dropout1d", "dropout2d", "dropout3d")),
              ("mindspore.mint.nn.functional", ("dropout", "dropout2d")))
_CELLS = (("mindspore.nn", ("Dropout", "Dropout1d", "Dropout2d", "Dropout3d")),
          ("mindspore.mint.nn", ("Dropout", "Dropout2d")))


def seed_all(seed=1234, mode=False, rm_dropout=True):
    """Seeds every generator; `mode` asks for deterministic kernels, `rm_dropout` makes the
    functional dropouts and the dropout Cells keep everything."""
    _seed.check(seed, mode, rm_dropout)
    steps = [lambda: mindspore.set_seed(seed),
             lambda: _set_deterministic(mode)]
    if rm_dropout:
        steps.append(_keep_everything)
    _seed.seed_all(seed, mode, *steps)


def _set_deterministic(mode):
    if hasattr(mindspore, "set_deterministic"):
        mindspore.set_deterministic(mode)
    else:
        mindspore.set_context(deterministic="ON" if mode else "OFF")


def _present(groups):
    for module_name, names in groups:
        try:
            module = importlib.import_module(module_name)
        except ImportError:
            continue
        for name in names:
            if hasattr(module, name):
                yield module, name


def _keep_everything():
    for module, name in _present(_FUNCTIONS):
        function = getattr(module, name)
        if not hasattr(function, "_keeps_everything"):
            Slot(module, name, _without_drops(function)).put()  # for good
    for module, name in _present(_CELLS):
        Slot(getattr(module, name), "construct", _identity).put()


def _identity(self, x):
    return x


def _without_drops(original):
    try:
        parameters = list(inspect.signature(original).parameters)
    except (TypeError, ValueError):  # of a function without Python source
        parameters = ["input", "p"]

    def dropout(*args, **kwargs):
        given = dict(zip(parameters, args), **kwargs)
        _seed.check_probability(given.get("p", 0.5))
        return given[parameters[0]]

    dropout._keeps_everything = True
    dropout.__name__ = original.__name__
    dropout.__doc__ = original.__doc__
    return dropout
