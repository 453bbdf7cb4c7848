"""Gradients of parameters as an optimizer is given them: after ranks exchanged them, after unscaling and clipping. parameters_grad is taken
before all of that, where autograd computes it. They are recorded in runs of several ranks, as entries of their own
(docs/formats/layout_json.md).

A framework may update copies of the parameters: Megatron has them at the parameter (main_param), or sums gradients up beside it
(main_grad). Where no optimizer of PyTorch steps, what stands at the parameters when the step ends is taken, but only of models whose
wrapper exchanges gradients during the backward pass: nothing else tells that the exchange has taken place.
"""
from msprobe import _native
from msprobe._intercept import optimizer_steps
from msprobe._session import LEVELS_WITH_MODULES
from msprobe.pytorch import distributed


def _of(parameter):
    """(what an optimizer updates, its gradient or None), the first that has one."""
    for tensor in (getattr(parameter, "main_param", None), parameter):
        gradient = getattr(tensor, "grad", None)
        if gradient is not None:
            return tensor, gradient
    return parameter, getattr(parameter, "main_grad", None)


def _updated(optimizer):
    """The ids of all tensors that an optimizer updates."""
    return {id(tensor) for group in getattr(optimizer, "param_groups", ()) for tensor in group["params"]}


class ReducedGradients:
    def __init__(self, session, modules):
        self._session = session
        self._modules = modules
        settings = session.settings
        # Elsewhere a further entry would count as a further call.
        self._possible = (session.level in LEVELS_WITH_MODULES and session.task in ("statistics", "tensor")
                          and not settings.get("bench_path") and not settings.get("online_run_ut"))
        self._seen_in = -1  # generation

    def wanted(self):
        return self._possible and distributed.world_size() > 1

    def step_begins(self):
        """An optimizer is about to update."""
        if not self.wanted() or not self._session.step_open:
            return
        self._seen_in = self._session.generation
        updated = _updated(optimizer_steps.stepping())
        found = [(known, name, *_of(parameter)) for known, name, parameter in self._parameters()]
        own = [row for row in found if id(row[2]) in updated]
        # Where it updates copies that cannot be told apart, all that is there.
        for known, name, _, gradient in own or found:
            if gradient is not None:
                _native.reduced_gradient(known.base, name, gradient)

    def finish_step(self):
        if self._seen_in == self._session.generation or not self.wanted():
            return
        for known, name, parameter in self._parameters(only_exchanged=True):
            if parameter.grad is not None:
                _native.reduced_gradient(known.base, name, parameter.grad)

    def _parameters(self, only_exchanged=False):
        """(known module, name, parameter) of all that are trained."""
        for _, root in self._modules.places():
            if not only_exchanged or any(map(_exchanges, root.modules())):
                for known in self._modules.recorded(root):
                    for name, parameter in self._modules.parameters(known.reference()).items():
                        if parameter.requires_grad:
                            yield known, name, parameter


def _exchanges(module):
    """Whether gradients have been exchanged when the backward pass is over. Megatron's wrapper of the same name waits for its optimizer."""
    return (type(module).__name__ in ("DistributedDataParallel", "FullyShardedDataParallel") or hasattr(module, "_get_fsdp_state")) \
        and not hasattr(module, "finish_grad_sync")
