"""A stand-in for MindSpore: as much of its interface as msprobe touches, over numpy. The same tests hold the
real one and this to the same behaviour (tests/frameworks/run.py mindspore); alone here are collectives and
ranks, which take several processes, and a torch over MindSpore.

It refuses what the real one refuses: an assignment to something that is no Parameter, a gradient
hook that gives nothing back, values of bfloat16 on the host, a compiled function that meets foreign
objects under the names of its own functions.
"""
import types

from mindspore._tensor import (BackwardNodePy, Parameter, Tensor, bfloat16, bool_, complex64,
                               float16, float32, float64, int32, int64, value_and_grad)
from mindspore import ops, nn, mint, common, communication, train
from mindspore.common.api import jit

_c_expression = types.SimpleNamespace(BackwardNodePy=BackwardNodePy)

GRAPH_MODE, PYNATIVE_MODE = 0, 1
_context = {"mode": PYNATIVE_MODE, "deterministic": "OFF"}
_seed = None


def set_context(**values):
    _context.update(values)


def get_context(name):
    return _context[name]


def set_seed(seed):
    global _seed
    _seed = seed


def get_seed():
    return _seed
