"""Runs that can be repeated: seeds, deterministic algorithms, no dropout."""
import os
import random

import torch
import torch.nn.functional as functional

from msprobe import _kinds
from msprobe._session import log

_MAX_SEED = 2**32 - 1
_originals = {}


def seed_all(seed=1234, mode=False, rm_dropout=True):
    """Seeds every generator; `mode` asks for deterministic algorithms, `rm_dropout` makes the
    functional dropouts (and the modules that call them) keep everything."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= _MAX_SEED:
        raise ValueError("a seed is an integer from 0 to %d, not %r" % (_MAX_SEED, seed))
    for name, value in (("mode", mode), ("rm_dropout", rm_dropout)):
        if not isinstance(value, bool):
            raise ValueError("%s is True or False, not %r" % (name, value))
    try:
        _seed(seed, mode)
        if rm_dropout:
            _keep_everything()
    except Exception as error:  # a missing device must not end the training
        log(_kinds.LOG_ERROR, "seed_all could not do everything: %s" % error)


def _seed(seed, mode):
    random.seed(seed)
    os.environ["PYTHONHASHSEED"] = str(seed)
    os.environ["HCCL_DETERMINISTIC"] = str(mode)
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    try:
        import numpy
    except ImportError:
        pass
    else:
        numpy.random.seed(seed)
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(mode)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
    npu = getattr(torch, "npu", None)
    if npu is not None and npu.is_available():
        npu.manual_seed_all(seed)


def _keep_everything():
    for name in ("dropout", "dropout2d", "dropout3d"):
        if name not in _originals:
            _originals[name] = getattr(functional, name)
            setattr(functional, name, _without_drops(_originals[name]))


def _without_drops(original):
    def dropout(input, p=0.5, training=True, inplace=False):
        if not 0.0 <= p <= 1.0:
            raise ValueError("a dropout probability lies between 0 and 1, not %s" % p)
        return original(input, p=0.0, training=training, inplace=inplace)

    dropout.__name__ = original.__name__
    dropout.__doc__ = original.__doc__
    return dropout
