"""One call and its second run."""
import contextlib

import mindspore

from msprobe import _native
from msprobe._free_benchmark.attempts import Skipped
from msprobe._intercept.runtime import own_work
from msprobe.mindspore import values
from msprobe.mindspore.free_benchmark.perturbation import (is_floating, mapped, of_array, position_of,
                                                           tensors_in)

# Parts of names, between underscores. Random numbers of some functions are drawn by their kernels,
# whose state cannot be restored.
_RANDOM = {"bernoulli", "choice", "exponential", "gamma", "gumbel", "laplace", "multinomial", "normal",
           "poisson", "rrelu", "sampler", "shuffle", "uniform"}
_RANDOM_BEGINNINGS = ("dropout", "fractional", "rand")
_RANDOM_NAMES = {"multi_head_attention_forward", "flash_attention_score"}
# They write into their arguments, though their names do not end in an underscore.
_WRITING_BEGINNINGS = ("assign", "inplace_", "apply_")
_WRITING_NAMES = {"batch_norm", "instance_norm", "index_add", "scatter_update", "set_data", "copy_"}
# What was seen of functions at their first calls.
_writers = set()
_known = set()


def _is_random(name):
    words = name.split("_")
    return (name in _RANDOM_NAMES or not _RANDOM.isdisjoint(words) or
            any(word.startswith(_RANDOM_BEGINNINGS) for word in words))


def _copy(tensor):
    return of_array(values.HostTensor(tensor).array.copy(), tensor)


def _bytes_of(tensors):
    return [values.HostTensor(tensor).array.tobytes() for tensor in tensors]


def settle():
    """Raises Skipped where an operation of the training has failed: that is its own error."""
    if not values.wait():
        raise Skipped("an operation before it failed")


def without_gradients():
    """Operations in this block make no nodes of the graph, where this version allows that."""
    return getattr(mindspore, "_no_grad", contextlib.nullcontext)()


class _RandomState:
    """Of the default generator, in versions that have one."""

    def __init__(self):
        read = getattr(mindspore, "get_rng_state", None)
        self._state = read() if read is not None else None

    def put(self):
        if self._state is not None:
            mindspore.set_rng_state(self._state)


@contextlib.contextmanager
def second_run(gradients=False):
    """In this block a call runs once more: unseen, and random numbers go on as if it had not."""
    with own_work():
        settle()
        after = _RandomState()
        try:
            with contextlib.nullcontext() if gradients else without_gradients():
                yield
            values.wait_for_own()
        finally:
            after.put()


class Call:
    """A call before it is made, with copies of what it may write."""

    def __init__(self, function, in_place, args, kwargs):
        self._function = function
        self._before = None
        self.args = args
        self.kwargs = kwargs
        name = function.rpartition(".")[2]
        if _is_random(name):
            raise Skipped("it draws random numbers")
        if _native.gives_raw_memory(name):
            raise Skipped("its result is not initialised")
        if position_of(args) is None:
            raise Skipped("no argument is a floating tensor")
        self.writes = (in_place or function in _writers or name in _WRITING_NAMES or
                       name.startswith(_WRITING_BEGINNINGS))
        if not self.writes and function in _known:
            return
        with own_work(), without_gradients():
            settle()
            if self.writes:
                self.args, self.kwargs = mapped(args, _copy), mapped(kwargs, _copy)
            else:
                self._before = _bytes_of(tensors_in(args, kwargs))

    def made(self):
        """After the call: raises Skipped where what it was given is there no more."""
        if self._before is None:
            return
        before, self._before = self._before, None
        with own_work(), without_gradients():
            settle()
            after = _bytes_of(tensors_in(self.args, self.kwargs))
        _known.add(self._function)
        if before != after:
            _writers.add(self._function)
            raise Skipped("it writes into its arguments, which was not known before its first call")

    def keep(self):
        """The call is looked at later: an optimizer may have written its parameters then."""
        def copied(tensor):
            return _copy(tensor) if isinstance(tensor, mindspore.Parameter) else tensor

        with own_work(), without_gradients():
            self.args, self.kwargs = mapped(self.args, copied), mapped(self.kwargs, copied)

    def again(self, original, perturbation, gradients=False):
        """The result of the second run."""
        with second_run(gradients):
            changed = perturbation.applied(self.args, self.kwargs)
            if changed is None:
                raise Skipped("nothing to change")
            return original(*changed[0], **changed[1])

    def differentiable(self):
        """Positions of arguments that gradients are computed of."""
        return [position for position, value in enumerate(self.args)
                if isinstance(value, values.tensor_types()) and is_floating(value)]


