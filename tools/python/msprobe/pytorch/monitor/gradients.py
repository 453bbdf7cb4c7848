"""Weight gradients before ranks exchange them: seen where autograd accumulates them."""
import torch
from torch.nn.parameter import is_lazy

from msprobe import _monitor, _native
from msprobe.pytorch.graph import accumulators
from msprobe.pytorch.monitor import buckets, optimizers

_TAKE_HOOKS = hasattr(torch.Tensor, "register_post_accumulate_grad_hook")   # from PyTorch 2.1 on


def _has_elements(tensor):
    """Not where they are elsewhere at the moment (ZeRO stage 3). What a lazy module will have is not made yet."""
    return is_lazy(tensor) or tensor.numel() > 0


def _is_distributed(tensor):
    """A DTensor. FSDP2 calls the hooks of these itself, with gradients that have been exchanged."""
    return hasattr(tensor, "_local_tensor")


class _Watch:
    """One parameter in the steps that are measured."""

    __slots__ = ("parameter", "node", "slot", "seen", "handle")

    def __init__(self, parameter, node, slot):
        self.parameter = parameter
        self.node = node  # None: the parameter itself takes the hook
        self.slot = slot
        self.seen = 0
        self.handle = None


class UnreducedGradients(_monitor.Collector):
    """The gradient of each parameter after its last micro step, or after every one."""

    def __init__(self, monitor):
        super().__init__(monitor)
        self._every = monitor.settings["monitor_mbs_grad"]
        self._watches = []
        self._buckets = None

    @staticmethod
    def wanted(settings):
        return settings["wg_distribution"]

    def watch(self, watched):
        if not self._every:
            bucket_hooks = buckets.find(self.monitor, watched)
            if bucket_hooks is not None:
                self._buckets = bucket_hooks
                return
        nodes = self._nodes(watched)
        for parameter, node in zip(watched.parameters, nodes):
            if node is None and not (self._take_hooks(watched, parameter.tensor) and _has_elements(parameter.tensor)):
                self.monitor.say_once(
                    _native.LOG_WARNING,
                    "%s has no node that accumulates its gradient: it has no row in "
                    "grad_unreduced" % parameter.full_name)
                continue
            slot = self.engine.slot(_native.TABLE_GRAD_UNREDUCED, parameter.name, "acc_grad")
            self._watches.append((_Watch(parameter, node, slot), watched))

    @staticmethod
    def _take_hooks(watched, tensor):
        """Whether the hook goes to the parameter. A node that is held works on the stream on which it was made, from then on: no graph can be
        recorded on another one. But who keeps main gradients writes them in hooks of the nodes, and ours have to come after them."""
        return _TAKE_HOOKS and not watched.main_gradients and not _is_distributed(tensor)

    def _nodes(self, watched):
        """Where the other hooks go; None for parameters that take them."""
        tensors = [parameter.tensor for parameter in watched.parameters]
        of_nodes = [tensor for tensor in tensors if not self._take_hooks(watched, tensor)]
        nodes = iter(accumulators(of_nodes) if of_nodes else ())
        return [None if self._take_hooks(watched, tensor) else next(nodes) for tensor in tensors]

    def start(self):
        if self._buckets is not None:
            self._buckets.start()
        for watch, watched in self._watches:
            watch.seen = 0
            if watch.handle is None:
                watch.handle = self._hooked(watch, self._hook(watch, watched))

    @staticmethod
    def _hooked(watch, hook):
        """The handle; None for a parameter that takes no hook now, frozen or not initialized: the next step asks again."""
        if watch.node is not None:
            return watch.node.register_hook(hook)
        tensor = watch.parameter.tensor
        return tensor.register_post_accumulate_grad_hook(hook) if tensor.requires_grad and not is_lazy(tensor) else None

    def stop(self):
        if self._buckets is not None:
            self._buckets.stop()
        for watch, _ in self._watches:
            if watch.handle is not None:
                watch.handle.remove()
                watch.handle = None

    def _hook(self, watch, watched):
        monitor, every, micro_steps = self.monitor, self._every, watched.micro_steps
        tensor, slot = watch.parameter.tensor, watch.slot
        has_main, measure = watched.main_gradients, self.engine.values

        def accumulated(*_):
            before = _native.inside(True)
            try:
                micro_step = watch.seen
                watch.seen = (micro_step + 1) % micro_steps
                if not every and micro_step + 1 < micro_steps:
                    return
                gradient = optimizers.own_gradient(tensor, has_main)
                if gradient is not None:
                    measure(slot, micro_step if every else _native.NO_MICRO_STEP, gradient)
            except Exception as error:  # training goes on
                monitor.failed("gradient of %s" % watch.parameter.full_name, error)
            finally:
                _native.inside(before)

        return accumulated
