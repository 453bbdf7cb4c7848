"""The gradients of a call, computed twice: of its arguments as they are, and changed. The gradient of the result is one
everywhere."""
import mindspore

from msprobe._free_benchmark.attempts import Skipped
from msprobe.mindspore import values
from msprobe.mindspore.free_benchmark.calls import second_run, without_gradients
from msprobe.mindspore.free_benchmark.perturbation import is_floating, of_array, tensors_in


def gradients(call, original, perturbation):
    """(those of the floating arguments, the same of changed arguments)"""
    positions = call.differentiable()
    if not positions:
        raise Skipped("no argument has a gradient")
    with second_run(gradients=True):
        with without_gradients():
            changed = perturbation.applied(call.args, call.kwargs)
        if changed is None:
            raise Skipped("nothing to change")
        return (_of(original, call.args, call.kwargs, positions),
                _of(original, changed[0], changed[1], positions))


def _apart(tensors):
    """Each an object of its own: gradients are distinguished by objects, not by places."""
    seen = set()
    apart = []
    for tensor in tensors:
        apart.append(of_array(values.HostTensor(tensor).array, tensor) if id(tensor) in seen else tensor)
        seen.add(id(tensor))
    return apart


def _of(original, args, kwargs, positions):
    def run(*tensors):
        inputs = list(args)
        for position, tensor in zip(positions, tensors):
            inputs[position] = tensor
        results = [result for result in tensors_in(original(*inputs, **kwargs)) if is_floating(result)]
        return results[0] if len(results) == 1 else tuple(results)

    found = mindspore.grad(run, grad_position=tuple(range(len(positions))))(
        *_apart([args[position] for position in positions]))
    return found if isinstance(found, tuple) else (found,)
