"""The gradients of a call, and those of changed inputs, which are computed when the former are due. The former are those that the
backward pass itself hands on, where the call's part of the graph shows them, and computed once more otherwise, or where the two
differ. Hooks are on the result or on a node of that part and go with it: nothing stays on parameters."""
import contextlib
import re

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
# Nodes of PyTorch's own operators. Those of other people may write into the gradients that they are given.
_OWN = re.compile(r"[A-Z]\w*Backward\d+")
_MOST_NODES = 16   # of one call's part of the graph that are looked at


class Backward:
    def __init__(self, call, original, perturbation):
        self._call = call
        self._original = original
        self._perturbation = perturbation
        self._needed = tuple(map(_needs, call.args))

    def watch(self, result, found):
        """found(self, gradient of the result, gradients that the call's node hands on or None) in every
        backward pass through the call. False: there will be none."""
        if not isinstance(result, torch.Tensor) or result.grad_fn is None or self._call.writes:
            return False
        arguments = _Arguments(self._call.args, self._call.kwargs)
        self._copies = not arguments.are_led_to_by_own_nodes(result.grad_fn)
        handing = None if self._copies else _handing_on(result, arguments)
        self._shape = self._edges = None
        if handing is None:
            result.register_hook(lambda gradient: found(self, gradient, None))
        else:
            node, output, self._edges = handing
            if node is not result.grad_fn:
                self._shape = result.shape

            def handed(gradients, incoming):
                if incoming[output] is not None:
                    found(self, incoming[output], gradients)

            node.register_hook(handed)
        # The node keeps the hook, which may not keep what leads to the node.
        self._call.leave_graph()
        return True

    def gradients(self, gradient, handed):
        """(those of the inputs that need any, the same of changed inputs, a function that computes the former once
        more, or None where that was done); the arguments are those of found(). None: there is nothing to change, or
        the inputs were written since."""
        call = self._call
        if not any(self._needed):
            raise Skipped("no argument by position is a tensor that needs a gradient")
        if not call.unchanged_since():
            return None
        with own_work(), torch.no_grad():
            gradient = gradient.detach()
            if self._shape is not None:
                gradient = gradient.reshape(self._shape)
            plain = None if handed is None else self._handed_on(handed)

        def again():
            return self._of(call.args, call.kwargs, gradient, autocasts=True)

        known = plain is not None
        if not known:
            plain = again()
        with own_work():
            changed = self._changed(gradient)
        if changed is None:
            return None
        # What was cast by hand, or brought to the CPU, is computed as it is.
        by_hand = self._perturbation._mode in ("improve_precision", "to_cpu")
        return plain, self._of(*changed, autocasts=not by_hand), again if known else None

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
            return args, kwargs, gradient
        if mode == "no_change":
            return args, kwargs, gradient
        args = list(args)
        for position, needed in enumerate(self._needed):
            if needed:
                changed = self._perturbation.of_tensor(args[position])
                if changed is not None:
                    args[position] = changed
                    if not self._perturbation._all:
                        break
        return tuple(args), kwargs, gradient

    def _of(self, args, kwargs, gradient, autocasts):
        with second_run(self._call.state, autocasts, gradients=True):
            args = [value.detach().requires_grad_() if needed else mapped(value, torch.Tensor.detach)
                    for value, needed in zip(args, self._needed)]
            leaves = [value for value, needed in zip(args, self._needed) if needed]
            kwargs = dict(mapped(kwargs, torch.Tensor.detach))
            if "inplace" in kwargs:
                kwargs["inplace"] = False
            with self._call.autocasting() if autocasts else contextlib.nullcontext():
                result = self._original(*args, **kwargs)
            gradient = gradient.to(result.dtype)
            if self._copies:
                gradient = gradient.clone()
            return torch.autograd.grad(result, leaves, gradient, allow_unused=True)


class _Arguments:
    """Where a call's part of the graph ends: at the arguments that need gradients."""

    def __init__(self, args, kwargs):
        self.order = {id(value): place for place, value in enumerate(filter(_needs, args))}
        given = [tensor for tensor in tensors_in(args, kwargs) if tensor.requires_grad]
        self._at = {(id(tensor), 0) if tensor.grad_fn is None else (tensor.grad_fn, tensor.output_nr): tensor
                    for tensor in given}
        self._nodes = {node for node, _ in self._at}
        # None is there twice, and no two are one to the graph.
        self.are_told_apart = bool(self.order) and len(self._at) == len(given)

    def owns(self, node):
        return node in self._nodes

    def behind(self, node, output):
        """The argument that has its gradient from this edge of the graph, or None."""
        leaf = getattr(node, "variable", None) if _name(node) == "AccumulateGrad" else None
        return self._at.get((id(leaf), 0) if leaf is not None else (node, output))

    def are_led_to_by_own_nodes(self, start):
        """Whether all nodes from this one on to the arguments are of PyTorch's own operators."""
        nodes = [start]
        for node in nodes:   # which grows meanwhile
            if self.owns(node) or _name(node) == "AccumulateGrad":
                continue
            if len(nodes) > _MOST_NODES or not _OWN.fullmatch(_name(node)):
                return False
            nodes += [child for child, _ in node.next_functions if child is not None and child not in nodes]
        return True


def _handing_on(result, arguments):
    """(the node of the call that computes gradients, which of its outputs leads to the result, [(which of its gradients it is, nodes
    that move it)] in the order of the arguments that need one). None where there is more than one such node, or its gradients are not
    one for each argument."""
    node, output = result.grad_fn, result.output_nr
    if not arguments.are_told_apart or arguments.owns(node):
        return None
    while _name(node) in _RESHAPES:
        child, child_output = node.next_functions[0]
        if child is None or _name(child) == "AccumulateGrad" or arguments.behind(child, child_output) is not None:
            break
        node, output = child, child_output
    edges = [None] * len(arguments.order)
    for index, (child, child_output) in enumerate(node.next_functions):
        moves = []
        while arguments.behind(child, child_output) is None and _name(child) in _MOVES:
            moves.append(child)
            child, child_output = child.next_functions[0]
        tensor = arguments.behind(child, child_output)
        if tensor is None and child is not None and _name(child) != "AccumulateGrad":
            return None   # more is computed behind it
        place = arguments.order.get(id(tensor))
        if place is not None:
            if edges[place] is not None:
                return None
            edges[place] = index, moves
    return None if None in edges else (node, output, edges)


def _name(node):
    return type(node).__name__


def _needs(value):
    return isinstance(value, torch.Tensor) and value.requires_grad
