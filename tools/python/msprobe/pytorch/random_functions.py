"""The functions that draw random numbers from global states, with every call frozen to the same numbers or recorded.

freeze() stores the global states of Python, numpy and PyTorch; from then on each listed function begins and ends with them, so equal
calls give equal values in any order. random_save() writes a row for each call: its name, its number and who called it. Both put
a layer over the functions (Slot); unfreeze() takes the first away."""
import functools
import linecache
import os
import random
import sys
import threading
import time

import torch

from msprobe import _native
from msprobe._files import csv_row
from msprobe._intercept.runtime import log, say_once
from msprobe._intercept.slots import Slot

try:
    import numpy.random as numpy_random
except ImportError:
    numpy_random = None

_FUNCTIONS = (
    ("python_random", random,
     "betavariate choice choices expovariate gammavariate gauss getrandbits lognormvariate normalvariate paretovariate randbytes "
     "randint random randrange sample shuffle triangular uniform vonmisesvariate weibullvariate"),
    ("numpy_random", numpy_random,
     "beta binomial bytes chisquare choice dirichlet exponential f gamma geometric gumbel hypergeometric laplace logistic lognormal "
     "logseries multinomial multivariate_normal negative_binomial noncentral_chisquare noncentral_f normal pareto permutation poisson "
     "power rand randint randn random random_integers random_sample ranf rayleigh sample shuffle standard_cauchy standard_exponential "
     "standard_gamma standard_normal standard_t triangular uniform vonmises wald weibull zipf"),
    ("torch_random", torch,
     "bernoulli multinomial normal poisson rand rand_like randint randint_like randn randn_like randperm"),
    ("tensor_random", torch.Tensor,
     "bernoulli_ cauchy_ exponential_ geometric_ log_normal_ multinomial normal_ random_ uniform_"),
)
_MANY_CALLS = 10000  # of one function, nothing else drawn between: perhaps a loop that waits for another number
_OWN_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def _slots(layer):
    """A slot with layer(kind, name, function) for each function that is there."""
    for kind, holder, names in _FUNCTIONS:
        for name in names.split():
            function = getattr(holder, name, None)
            if callable(function):
                yield Slot(holder, name, functools.wraps(function)(layer(kind, name, function)))


# ---- frozen ----

def _devices():
    for name in ("cuda", "npu"):
        device = getattr(torch, name, None)
        if device is not None and device.is_available():
            yield device


class _Frozen:
    """The states, and what puts them back before and after each call."""

    def __init__(self):
        # Fixed before anything is replaced: these functions themselves must not be a frozen layer's.
        self._states = [(random.setstate, random.getstate()), (torch.set_rng_state, torch.get_rng_state())]
        if numpy_random is not None:
            self._states.append((numpy_random.set_state, numpy_random.get_state()))
        self._states += [(device.set_rng_state_all, device.get_rng_state_all()) for device in _devices()]
        self._last = None
        self._times = 0
        self.slots = list(_slots(self._layer))

    def _restore(self):
        for put, state in self._states:
            put(state)

    def _layer(self, kind, name, function):
        def frozen(*args, **kwargs):
            self._count(function, kind, name)
            self._restore()
            try:
                return function(*args, **kwargs)
            finally:
                self._restore()
        return frozen

    def _count(self, function, kind, name):
        if self._last is not function:
            self._last, self._times = function, 0
        self._times += 1
        if self._times == _MANY_CALLS:
            say_once(_native.LOG_WARNING,
                     "%s.%s was called %d times in succession and gives the same numbers each time (seed_all with is_enhanced): a loop "
                     "that draws until something fits never ends; unfreeze_random() ends it" % (kind, name, _MANY_CALLS))


_frozen = []


def freeze():
    """Equal calls give equal values from now on. The states of the first time stay."""
    if _frozen:
        log(_native.LOG_WARNING, "seed_all: the random functions are frozen already, to the states of the first seed; "
            "unfreeze_random() before it lets another seed count")
        return
    _frozen.append(_Frozen())
    for slot in _frozen[0].slots:
        slot.put()


def unfreeze_random():
    """The functions draw as they did before seed_all(is_enhanced=True)."""
    if _frozen:
        for slot in reversed(_frozen.pop().slots):
            slot.take()


# ---- recorded ----

def _rank():
    distributed = torch.distributed
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_rank()
    return None


def _stack(frame):
    """Who called, the innermost first; without frames of this package, and without those that have no source."""
    parts = []
    while frame is not None:
        code = frame.f_code
        path = code.co_filename
        line = linecache.getline(path, frame.f_lineno, frame.f_globals).strip()
        if line and not os.path.abspath(path).startswith(_OWN_FOLDER):
            parts.append("File %s, line %d, in %s, \n %s \n" % (path, frame.f_lineno, code.co_name, line))
        frame = frame.f_back
    return "".join(parts)


class _Recorder:
    """The file of this process, and of each that is forked from it."""

    def __init__(self, folder):
        self._folder = os.path.abspath(folder)
        self._lock = threading.RLock()
        self._counts = {}
        self._open()

    def _open(self):
        self._process = os.getpid()
        self._has_rank = False
        self._stamp = time.strftime("%Y%m%d%H%M%S")
        os.makedirs(self._folder, mode=0o750, exist_ok=True)
        self._path = os.path.join(self._folder, "random_proc%d_%s.csv" % (self._process, self._stamp))
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
        self._file = os.fdopen(descriptor, "w", encoding="utf-8-sig", newline="")
        self._file.write("api_name,stack\r\n")
        self._file.flush()

    def _name_rank(self):
        rank = _rank()
        if rank is None:
            return
        self._has_rank = True
        path = os.path.join(self._folder, "random_rank%d_%s.csv" % (rank, self._stamp))
        if not os.path.lexists(path):
            os.rename(self._path, path)
            self._path = path

    def layer(self, kind, name, function):
        key = "%s.%s" % (kind, name)

        def recorded(*args, **kwargs):
            self._record(key, sys._getframe(1))
            return function(*args, **kwargs)
        return recorded

    def _record(self, key, frame):
        try:
            with self._lock:
                if os.getpid() != self._process:  # a fork: the other process writes into that file
                    self._counts.clear()
                    self._open()
                if not self._has_rank:
                    self._name_rank()
                number = self._counts.get(key, 0)
                self._counts[key] = number + 1
                self._file.write(csv_row(["%s.%d" % (key, number), _stack(frame)]))
                self._file.flush()
        except Exception as error:  # the training goes on
            say_once(_native.LOG_WARNING, "random_save could not record a call: %s" % error)


_recorder = []


def random_save(output_path="./output"):
    """Writes who draws random numbers, a row for each call of a listed function, into
    `output_path`/random_rank<R>_<time>.csv, or random_proc<P>_<time>.csv without ranks. The first call counts."""
    if not isinstance(output_path, str):
        raise ValueError("output_path is a text, the folder of the file, not %r" % (output_path,))
    if _recorder:
        log(_native.LOG_WARNING, "random_save: random calls are recorded already, in another file; this call changes nothing")
        return
    _recorder.append(_Recorder(output_path))
    for slot in list(_slots(_recorder[0].layer)):
        slot.put()
