"""When calls are repeated, and what is recorded of it."""
import contextlib
import time
import zlib

import torch

from msprobe import _native
from msprobe._free_benchmark.attempts import Attempts, Skipped
from msprobe._intercept.runtime import guarded, log, own_work
from msprobe.pytorch import graph
from msprobe.pytorch.free_benchmark.calls import Call, free_memory, second_run
from msprobe.pytorch.free_benchmark.perturbation import mapped, on_host
from msprobe.pytorch.repeat.orders import order_of, other_threads
from msprobe.pytorch.repeat.rounding import Rounding, can_round


class Repeats:
    """For the extension: repeats(original, name, in_place, args, kwargs) before a call gives what it
    calls with the result when the call is recorded, or None."""

    mode = "stochastic_rounding"  # for Call: nothing is cast

    def __init__(self, session):
        self._session = session
        self._count = session.settings["repeat"]
        self._of_inputs = session.settings["api_backward"] == "inputs"
        self._attempts = Attempts("has no noise floor", free_memory)
        self._measured = 0
        self._late = []  # floors of gradients: whether these are recorded is known at the end

    def __call__(self, original, name, in_place, args, kwargs):
        kwargs = {} if kwargs is None else kwargs
        function = name.rpartition(".")[0]
        call = self._attempt(name, Call, self, function, in_place, args, kwargs)
        if call is None:
            return None
        return lambda result: self._attempt(name, self._repeat, call, original, function, name, result)

    def _attempt(self, name, function, *args):
        begin = time.perf_counter_ns()
        try:
            return self._attempts.make(name, function, *args)
        finally:
            _native.repeated(time.perf_counter_ns() - begin)

    def finish_step(self):
        """Gradients that were recorded get their floors."""
        late, self._late = self._late, []
        for name, floors in late:
            if _native.has_gradients(name):
                self._record(name, floors)

    def tell(self):
        if self._measured or self._attempts.skipped:
            log(_native.LOG_INFO, "noise floors: %d calls were repeated %d times" % (
                self._measured, self._count))
            self._attempts.tell("not repeated")

    # ---- forward ----

    def _repeat(self, call, original, function, name, result):
        call.made()
        forms = _floating(result)
        if forms:
            order = order_of(function)
            self._record(name + ".forward", self._floors(name + ".forward", [
                self._again(call, original, name, number, order) for number in range(self._count)]))
        self._watch_backward(call, original, name, result)

    def _again(self, call, original, name, number, order):
        varies = number % 2 == 1
        rounding = Rounding(name, number, order if varies else None, copies=call.writes)
        with other_threads() if varies else contextlib.nullcontext():
            result = call.again(original, rounding)
        with second_run(call.state, True):
            return _floating(rounding.restored(result))

    @staticmethod
    def _floors(name, results):
        """`results`: of every repetition {path: tensor}. Gives [(path, digits, noise)]."""
        floors = []
        for path in results[0]:
            values = [result.get(path) for result in results]
            if any(value is None or value.shape != values[0].shape for value in values):
                continue  # how many elements there are depends on the values
            digits, noise, not_finite = _native.measure_noise_floor(
                [value if on_host(value) else value.cpu() for value in values],
                zlib.crc32(("%s:%s" % (name, path)).encode()))
            if not not_finite and noise != float("inf"):
                floors.append((path, round(digits, 2), float("%.3g" % noise)))
        return floors

    def _record(self, name, floors):
        if floors:
            self._measured += 1
            _native.record_noise_floor(name, self._count, floors)

    # ---- backward ----

    def _watch_backward(self, call, original, name, result):
        """The hook is on the node of the result and goes with it."""
        first = _first_tensor(result)
        if (first is None or not first.requires_grad or first.grad_fn is None or
                not torch.is_grad_enabled()):
            return
        if call.writes:
            raise Skipped("gradients of what writes into its arguments are not computed again")
        if any(first is value for value in (*call.args, *call.kwargs.values())):
            return
        session, generation = self._session, self._session.generation

        def on_gradients(_, gradients):
            if session.step_open and session.generation == generation:
                with own_work():
                    self._attempt(name + ".backward", self._repeat_backward, call, original, name, gradients)

        first.grad_fn.register_hook(guarded(on_gradients))

    def _repeat_backward(self, call, original, name, gradients):
        if not call.unchanged_since():
            raise Skipped("its arguments were written before its backward")
        name += ".backward"
        self._late.append((name, self._floors(name, [
            self._gradients(call, original, name, gradients, number)
            for number in range(self._count)])))

    def _gradients(self, call, original, name, gradients, number):
        rounding = Rounding(name, number)
        leaves = []

        def leaf(tensor):
            value = rounding.of(tensor)
            if tensor.requires_grad and not value.requires_grad:
                value = value.detach().requires_grad_()
                leaves.append(value)
            return value

        with second_run(call.state, True, gradients=True), \
                other_threads() if number % 2 == 1 else contextlib.nullcontext():
            args, kwargs = mapped(call.args, leaf), mapped(call.kwargs, leaf)
            if "inplace" in kwargs:
                kwargs["inplace"] = False
            with call.autocasting():
                result = original(*args, **kwargs)
            node = _first_tensor(result).grad_fn
            found = []
            node.register_hook(lambda of_inputs, _: found.append(of_inputs))
            outputs, weights = [], []
            for tensor in _tensors(result):
                given = gradients[tensor.output_nr] if tensor.grad_fn is node else None
                if given is not None:
                    outputs.append(tensor)
                    weights.append(rounding.of(given))
            of_leaves = torch.autograd.grad(outputs, leaves, weights, allow_unused=True)
        return _floating(tuple(of_leaves if self._of_inputs else found[0]))


# ---- results, as rows of a dump name them ----

def _floating(result):
    """{path: tensor} of what can be rounded: what is not a tuple counts as a tuple of one."""
    found = {}
    if not isinstance(result, tuple):
        result = (result,)
    _collect(result, "", found)
    return found


def _collect(value, path, found):
    if can_round(value):
        found[path] = value.detach()
    elif isinstance(value, dict):
        for key, item in value.items():
            _collect(item, "%s.%s" % (path, key) if path else str(key), found)
    elif isinstance(value, (list, tuple)):
        names = getattr(value, "_fields", None) or range(len(value))
        for key, item in zip(names, value):
            _collect(item, "%s.%s" % (path, key) if path else str(key), found)


def _tensors(result):
    found = []
    graph.collect(result, found)
    return found


def _first_tensor(result):
    """That whose node reports the gradients of the call."""
    while isinstance(result, (list, tuple)) and result:
        result = result[0]
    if isinstance(result, dict):
        result = next((value for value in result.values() if isinstance(value, torch.Tensor)), None)
    return result if isinstance(result, torch.Tensor) else None
