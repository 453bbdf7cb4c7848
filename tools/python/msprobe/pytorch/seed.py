"""Runs that can be repeated: seeds, deterministic algorithms, no dropout."""
import os

import torch
import torch.nn.functional as functional

from msprobe import _seed
from msprobe._intercept.slots import Slot
from msprobe.pytorch import random_functions

_originals = {}


def seed_all(seed=1234, mode=False, rm_dropout=False, is_enhanced=False):
    """Seeds every generator; `mode` asks for deterministic algorithms, `rm_dropout` makes the
    functional dropouts (and the modules that call them) keep everything. `is_enhanced`: every random
    function begins with the seed's state at each call, so equal calls give equal values in any order."""
    _seed.check(seed, mode, rm_dropout, is_enhanced)
    steps = [lambda: _seed_torch(seed, mode)]
    if rm_dropout:
        steps.append(_keep_everything)
    if is_enhanced:
        steps.append(random_functions.freeze)
    _seed.seed_all(seed, mode, *steps)


def _seed_torch(seed, mode):
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(mode)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(seed)
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
    npu = getattr(torch, "npu", None)
    if npu is not None and npu.is_available():
        os.environ.update(LCCL_DETERMINISTIC="1", CLOSE_MATMUL_K_SHIFT="1", ATB_LLM_LCOC_ENABLE="0")
        npu.manual_seed_all(seed)


def _keep_everything():
    for name in ("dropout", "dropout2d", "dropout3d"):
        if name not in _originals:
            _originals[name] = getattr(functional, name)
            Slot(functional, name, _without_drops(_originals[name])).put()  # for good


def _without_drops(original):
    def dropout(input, p=0.5, training=True, inplace=False):
        _seed.check_probability(p)
        return original(input, p=0.0, training=training, inplace=inplace)

    dropout.__name__ = original.__name__
    dropout.__doc__ = original.__doc__
    return dropout
