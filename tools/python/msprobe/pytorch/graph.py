"""How the autograd graph of PyTorch is read."""
import contextlib
import operator

import torch

from msprobe import _native
from msprobe._intercept import gradients, runtime
from msprobe.pytorch.device_streams import in_own_thread, in_streams_of


# collect(value, found): appends the tensors in `value` that require a gradient, in order.
collect = _native.collect_tensors


class Reader(gradients.GraphReader):
    """The extension reads nodes and edges itself."""

    # Since PyTorch 2 hooks on tensors come before all others.
    has_late_hooks = int(torch.__version__.split(".")[0]) < 2
    is_view = staticmethod(operator.methodcaller("_is_view"))
    # Not there before PyTorch 2.
    sequence_number = getattr(torch._C._autograd, "_get_sequence_nr", None)

    @staticmethod
    def watch_leaf(tensor, hook):
        [node] = accumulators([tensor])
        return None if node is None else (node, node.register_prehook(hook))

    @staticmethod
    def plus(known, gradient):
        with runtime.own_work(), torch.no_grad():
            return gradient.clone() if known is None else known + gradient

    @staticmethod
    def minus(gradient, inside):
        with runtime.own_work(), torch.no_grad():
            # While a CUDA graph is captured nothing can be asked of values.
            asked = not (gradient.is_cuda and torch.cuda.is_current_stream_capturing())
            if asked and torch.equal(gradient, inside):
                return None
            return gradient - inside


def accumulators(leaves):
    """The nodes that add to the gradients of leaves, None where none can be had: not for a leaf
    without elements, which may stand for one whose elements are elsewhere at the moment (ZeRO stage
    3). Its node would keep that shape, and refuse the gradient.

    Nodes are numbered per thread, and where several threads ran the forward pass the numbers decide
    in which order gradients are summed. So what has to be computed here is computed by a thread of
    its own. A node works on the stream on which it was made: on that of the caller."""
    found = [None] * len(leaves)
    streams = in_streams_of(leaves)

    def find():
        _native.inside(True)
        with streams, torch.enable_grad():
            for index, leaf in enumerate(leaves):
                with contextlib.suppress(Exception):
                    if not leaf.numel():
                        continue
                    found[index] = torch.Tensor.view_as(leaf, leaf).grad_fn.next_functions[0][0]

    in_own_thread(find)
    return found
