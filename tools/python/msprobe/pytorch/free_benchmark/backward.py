"""The gradients of a call, and those of changed inputs, which are computed when the former are due. The former are those that the
backward pass itself hands on, where the call's part of the graph shows them, and computed once more otherwise. Hooks are on the
result or on a node of that part and go with it: nothing stays on parameters."""
import contextlib

import torch

from msprobe._free_benchmark.attempts import Skipped
from msprobe._intercept.runtime import own_work
from msprobe.pytorch.free_benchmark.calls import second_run
from msprobe.pytorch.free_benchmark.perturbation import mapped, tensors_in

# Nodes whose gradient is the one that came in, in another shape; and those that only move it or add up what was broadcast. They
# keep no tensors, so that they can be asked once more what they make of a gradient.
_RESHAPES = {"ViewBackward0", "UnsafeViewBackward0", "ReshapeAliasBackward0", "UnsqueezeBackward0", "SqueezeBackward0",
             "SqueezeBackward1"}
_MOVES = _RESHAPES | {"TBackward0", "TransposeBackward0", "PermuteBackward0", "ExpandBackward0"}


class Backward:
    def __init__(self, call, original, perturbation):
        self._call = call
        self._original = original
        self._perturbation = perturbation

    def watch(self, result, found):
        """found(self, gradient of the result, gradients that the call's node hands on or None) in every
        backward pass through the call. False: there will be none."""
        if not isinstance(result, torch.Tensor) or not result.requires_grad or self._call.writes:
            return False
        self._shape = result.shape
        self._edges = None
        handing = _handing_on(result, self._call.args, self._call.kwargs)
        if handing is None:
            result.register_hook(lambda gradient: found(self, gradient, None))
        else:
            node, output, self._edges = handing

            def handed(gradients, incoming):
                if incoming[output] is not None:
                    found(self, incoming[output], gradients)

            node.register_hook(handed)
        return True

    def gradients(self, gradient, handed):
        """(those of the inputs that need any, the same of changed inputs); the arguments are those of found()."""
        call = self._call
        if not any(map(_needs, call.args)):
            raise Skipped("no argument by position is a tensor that needs a gradient")
        if not call.unchanged_since():
            return None
        with own_work(), torch.no_grad():
            gradient = gradient.detach().reshape(self._shape)
            plain = None if handed is None else self._handed_on(handed)
        if plain is None:
            plain = self._of(call.args, call.kwargs, gradient, autocasts=True)
        with own_work():
            changed = self._changed(gradient)
        if changed is None:
            return None
        # What was cast by hand, or brought to the CPU, is computed as it is.
        by_hand = self._perturbation._mode in ("improve_precision", "to_cpu")
        return plain, self._of(*changed, autocasts=not by_hand)

    def _handed_on(self, gradients):
        """The gradients in the order of the arguments; None where the pass did not ask for all of them."""
        plain = []
        for index, moves in self._edges:
            gradient = gradients[index]
            if gradient is None:
                return None
            gradient = gradient.detach()
            for move in moves:
                gradient = move(gradient)
            plain.append(gradient)
        return tuple(plain)

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


def _handing_on(result, args, kwargs):
    """(the node of the call that computes gradients, which of its outputs leads to the result, [(which of its gradients it is, nodes
    that move it)] in the order of the arguments that need one). None where there is more than one such node, or its gradients are not
    one for each argument."""
    order = {id(value): place for place, value in enumerate(filter(_needs, args))}
    given = [tensor for tensor in tensors_in(args, kwargs) if tensor.requires_grad]
    owners = {_place(tensor): tensor for tensor in given}
    if not order or len(owners) != len(given):
        return None   # one tensor is two arguments, or two are one to the graph

    def owner(child, output):
        """The argument that has its gradient from this edge of the graph, or None."""
        leaf = getattr(child, "variable", None) if _name(child) == "AccumulateGrad" else None
        return owners.get((id(leaf), 0) if leaf is not None else (child, output))

    node, output = result.grad_fn, result.output_nr
    if any(node is place for place, _ in owners):
        return None   # an argument itself is what the call gives
    while _name(node) in _RESHAPES:
        child, child_output = node.next_functions[0]
        if child is None or _name(child) == "AccumulateGrad" or owner(child, child_output) is not None:
            break
        node, output = child, child_output
    edges = [None] * len(order)
    for index, (child, child_output) in enumerate(node.next_functions):
        moves = []
        while owner(child, child_output) is None and _name(child) in _MOVES:
            moves.append(child)
            child, child_output = child.next_functions[0]
        tensor = owner(child, child_output)
        if tensor is None and child is not None and _name(child) != "AccumulateGrad":
            return None   # more is computed behind it
        place = order.get(id(tensor))
        if place is not None:
            if edges[place] is not None:
                return None
            edges[place] = index, moves
    return None if None in edges else (node, output, edges)


def _place(tensor):
    """Where its gradient goes: (node, which of its outputs), or (itself, 0) of a leaf."""
    return (id(tensor), 0) if tensor.grad_fn is None else (tensor.grad_fn, tensor.output_nr)


def _name(node):
    return type(node).__name__


def _needs(value):
    return isinstance(value, torch.Tensor) and value.requires_grad


def _marked(value):
    return value.detach().requires_grad_()
