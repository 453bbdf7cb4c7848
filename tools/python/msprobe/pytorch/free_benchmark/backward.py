"""The gradients of a call, and those of changed inputs, which are computed when the former are due. The former are those that the
backward pass itself hands on, where the call's part of the graph shows them, and computed once more otherwise. Hooks are on the
result or on that part of the graph and go with it: nothing stays on parameters."""
import contextlib
import functools

import torch

from msprobe._free_benchmark.attempts import Skipped
from msprobe._intercept.runtime import own_work
from msprobe.pytorch.free_benchmark.calls import second_run
from msprobe.pytorch.free_benchmark.perturbation import mapped, tensors_in

_MOST_NODES = 16   # of one call's part of the graph
_MOST_USES = 2     # of one argument in it: of two gradients the sum is the same in any order


class Backward:
    def __init__(self, call, original, perturbation):
        self._call = call
        self._original = original
        self._perturbation = perturbation

    def watch(self, result, found):
        """found(self, gradient of the result, gradients of the inputs or None) in every backward pass through
        the call. False: there will be none."""
        if not isinstance(result, torch.Tensor) or not result.requires_grad or self._call.writes:
            return False
        edges = _edges(result, self._call.args, self._call.kwargs)
        if edges is None:
            result.register_hook(lambda gradient: found(self, gradient, None))
        else:
            _HandedOn(result, edges, functools.partial(found, self))
        return True

    def gradients(self, gradient, plain):
        """(those of the inputs that need any, the same of changed inputs). `plain`: the former, by the position
        of the argument, as the backward pass handed them on; None: not known."""
        call = self._call
        if not any(map(_needs, call.args)):
            raise Skipped("no argument by position is a tensor that needs a gradient")
        if not call.unchanged_since():
            return None
        if plain is None:
            plain = self._of(call.args, call.kwargs, gradient.detach(), autocasts=True)
        else:
            plain = tuple(plain.get(position) for position, value in enumerate(call.args) if _needs(value))
        with own_work():
            changed = self._changed(gradient.detach())
        if changed is None:
            return None
        # What was cast by hand, or brought to the CPU, is computed as it is.
        by_hand = self._perturbation._mode in ("improve_precision", "to_cpu")
        return plain, self._of(*changed, autocasts=not by_hand)

    def _changed(self, gradient):
        """(args, kwargs, gradient) as the mode wants them."""
        mode = self._perturbation._mode
        args, kwargs = self._call.args, self._call.kwargs
        if mode in ("improve_precision", "to_cpu"):
            applied = self._perturbation.applied((args, gradient), kwargs)
            if applied is None:
                return None
            (args, gradient), kwargs = applied
            needed = iter([_needs(value) for value in self._call.args])
            args = tuple(_marked(value) if need else value for value, need in zip(args, needed))
            return args, kwargs, gradient
        if mode == "no_change":
            return args, kwargs, gradient
        args = list(args)
        for position, value in enumerate(args):
            if _needs(value):
                changed = self._perturbation.of_tensor(value.detach())
                if changed is not None:
                    args[position] = _marked(changed)
                    if not self._perturbation._all:
                        break
        return tuple(args), kwargs, gradient

    def _of(self, args, kwargs, gradient, autocasts):
        with second_run(self._call.state, autocasts, gradients=True):
            leaves = []

            def leaf(value):
                if not _needs(value):
                    return mapped(value, torch.Tensor.detach)
                leaves.append(value.detach().requires_grad_())
                return leaves[-1]

            args = [leaf(value) for value in args]
            kwargs = dict(mapped(kwargs, torch.Tensor.detach))
            if "inplace" in kwargs:
                kwargs["inplace"] = False
            with self._call.autocasting() if autocasts else contextlib.nullcontext():
                result = self._original(*args, **kwargs)
            return torch.autograd.grad(result, leaves, gradient.to(result.dtype), allow_unused=True)


def _needs(value):
    return isinstance(value, torch.Tensor) and value.requires_grad


def _marked(value):
    return value.detach().requires_grad_()


def _edges(result, args, kwargs):
    """[(node, [(which of its gradients, position of the argument that gets it)])]: where gradients leave the part of the graph
    that the call has made. None: that does not show."""
    start = result.grad_fn
    leaves, inner, ends = {}, {}, set()
    positions = {id(value): position for position, value in enumerate(args) if _needs(value)}
    if len(positions) != sum(map(_needs, args)):
        return None   # one tensor is two arguments
    for tensor in tensors_in(args, kwargs):
        if not tensor.requires_grad:
            continue
        if tensor.grad_fn is None:
            leaves[id(tensor)] = tensor
        else:
            ends.add(tensor.grad_fn)
            inner[tensor.grad_fn, tensor.output_nr] = tensor
    if not positions or start is None or start in ends:
        return None
    edges, nodes, uses = [], [start], dict.fromkeys(positions.values(), 0)
    for node in nodes:   # which grows meanwhile
        leaving = []
        for index, (child, output) in enumerate(node.next_functions):
            if child is None:
                continue
            variable = getattr(child, "variable", None) if type(child).__name__ == "AccumulateGrad" else None
            tensor = leaves.get(id(variable)) if variable is not None else inner.get((child, output))
            position = positions.get(id(tensor))
            if position is not None:
                leaving.append((index, position))
                uses[position] += 1
            elif variable is None and child not in ends and child not in nodes:
                nodes.append(child)
        if leaving:
            edges.append((node, leaving))
        if len(nodes) > _MOST_NODES:
            return None
    return edges if edges and max(uses.values()) <= _MOST_USES else None


class _HandedOn:
    """Collects the gradients that leave a call's nodes in a backward pass. Holds no node: they hold it."""

    def __init__(self, result, edges, found):
        self._output = result.output_nr
        self._count = len(edges)
        self._found = found
        self._incoming = None
        self._parts = {}
        # The result's node runs first; it may be one of those at the other end, too.
        result.grad_fn.register_hook(self._begin)
        for node, leaving in edges:
            node.register_hook(functools.partial(self._take, leaving))

    def _begin(self, _, incoming):
        self._incoming = incoming[self._output]
        self._parts = {}
        self._left = self._count
        if self._count > 1:
            torch.autograd.Variable._execution_engine.queue_callback(self._end)

    def _end(self):
        """After the pass. Some nodes may not have run, where it did not ask for all gradients."""
        incoming, self._incoming, self._parts = self._incoming, None, {}
        if incoming is not None:
            self._found(incoming, None)

    def _take(self, leaving, gradients, _):
        incoming = self._incoming
        if incoming is None:
            return
        for index, position in leaving:
            self._parts.setdefault(position, []).append(gradients[index])
        self._left -= 1
        if self._left > 0:
            return
        parts, self._parts, self._incoming = self._parts, {}, None
        if any(part is None for handed in parts.values() for part in handed):
            self._found(incoming, None)   # of a pass that does not ask for all of them
            return
        with own_work(), torch.no_grad():
            plain = {position: handed[0].detach() if len(handed) == 1 else handed[0] + handed[1]
                     for position, handed in parts.items()}
        self._found(incoming, plain)
