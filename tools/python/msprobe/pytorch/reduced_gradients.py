"""Gradients of parameters as an optimizer is given them: after ranks exchanged them, after unscaling and clipping. parameters_grad is taken
before all of that, where autograd computes it. They are recorded as entries of their own (docs/formats/layout_json.md): in runs of several
ranks always; of one process where an optimizer is given anything else than what the last backward pass computed, because micro-batches
were accumulated, gradients scaled or clipped, or copies of the parameters are updated.

A framework may update other tensors than the parameters: Megatron has a copy, perhaps of this rank's elements alone, at the parameter
(main_param); ZeRO updates flat tensors that hold this rank's elements of many parameters, and so does Megatron's distributed optimizer
without copies. What lies in the same memory belongs together. Where nothing fits, a parameter's main_param, grad or main_grad is taken,
in this order. Of a parameter that is shared out the recorded gradient is that of this rank's elements, in one dimension.

Where no optimizer of PyTorch steps, what stands at the parameters when the step ends is taken, but only of models whose wrapper exchanges
gradients during the backward pass: nothing else tells that the exchange has taken place.
"""
import bisect

from msprobe import _native
from msprobe._intercept import optimizer_steps
from msprobe._session import LEVELS_WITH_MODULES
from msprobe.pytorch import distributed, layout


class _Updated:
    """The tensors that an optimizer updates, by identity and by the memory that they are in."""

    def __init__(self, optimizer):
        groups = getattr(optimizer, "param_groups", None) or ()
        self._tensors = {id(tensor): tensor for group in groups for tensor in group["params"]}
        flat = [tensor for tensor in self._tensors.values() if tensor.dim() == 1 and tensor.numel() and tensor.grad is not None]
        self._flat = sorted(((tensor.data_ptr(), tensor) for tensor in flat if _is_dense(tensor)), key=lambda row: row[0])
        self._begins = [begin for begin, _ in self._flat]

    def gradient(self, parameter):
        """What this optimizer is given for a parameter of the model, None where it is given nothing."""
        for tensor in (getattr(parameter, "main_param", None), parameter):
            if tensor is not None and id(tensor) in self._tensors:
                return tensor.grad
        owner = getattr(parameter, "_z3_optimizer", None)
        if owner is not None:
            return self._of_stage_3(owner, parameter)
        mapping = getattr(parameter, "_hp_mapping", None)
        return self._in_memory(parameter if mapping is None else mapping.hp_fragment)

    def of_flat(self, flat, offset, count):
        """The same for some elements of a flat parameter."""
        gradient = flat.grad if id(flat) in self._tensors else None
        return _part_of(gradient, (offset, count))

    def _of_stage_3(self, owner, parameter):
        """ZeRO's place for this rank's part of a parameter."""
        group, first, count = owner.grad_position[owner.get_param_id(parameter)]
        flat = owner.fp32_partitioned_groups_flat[group]
        return flat.grad.narrow(0, int(first), int(count)) if id(flat) in self._tensors and flat.grad is not None else None

    def _in_memory(self, tensor):
        if not self._flat or not tensor.numel() or not _is_dense(tensor):
            return None
        begin, size = tensor.data_ptr(), tensor.element_size()
        end = begin + tensor.numel() * size
        index = max(bisect.bisect_right(self._begins, begin) - 1, 0)
        for start, flat in self._flat[index:index + 2]:
            first, last = max(begin, start), min(end, start + flat.numel() * size)
            if first < last and flat.element_size() == size:
                return flat.grad.narrow(0, (first - start) // size, (last - first) // size)
        return None


def _is_dense(tensor):
    return not hasattr(tensor, "placements") and str(tensor.layout) == "torch.strided" and tensor.is_contiguous()


def _part_of(gradient, part):
    return gradient if gradient is None or part is None else gradient.view(-1).narrow(0, *part)


def _own_gradient(parameter, part):
    return _part_of(parameter.grad if parameter.is_leaf else None, part)


def _any_gradient(parameter, part):
    """Where nothing tells what is updated."""
    if part is not None:
        return _own_gradient(parameter, part)
    copy = getattr(parameter, "main_param", None)
    if copy is not None and copy.grad is not None:
        return copy.grad
    own = parameter.grad if parameter.is_leaf else None
    if own is not None or getattr(parameter, "main_param_sharded", False):
        return own  # of main_grad only this rank's elements would be complete
    return getattr(parameter, "main_grad", None)


class ReducedGradients:
    def __init__(self, session, modules):
        self._session = session
        self._modules = modules
        settings = session.settings
        # Elsewhere a further entry would count as a further call.
        self._possible = (session.level in LEVELS_WITH_MODULES and session.task in ("statistics", "tensor")
                          and not settings.get("bench_path") and not settings.get("online_run_ut"))
        self._seen_in = -1  # generation
        self._computed = {}  # (id of known module, name): place of the gradient that the backward pass computed last
        if self._possible:
            modules.computed = self._note

    def wanted(self):
        return self._possible

    def _note(self, known, name, gradient):
        if distributed.world_size() == 1:
            self._computed[id(known), name] = _place(gradient)

    def step_begins(self):
        """An optimizer is about to update."""
        if not self._possible or not self._session.step_open:
            return
        self._seen_in = self._session.generation
        updated, parameters = _Updated(optimizer_steps.stepping()), list(self._parameters())
        found = [(known, name, updated.gradient(parameter) if part is None else updated.of_flat(parameter, *part))
                 for known, name, parameter, part in parameters]
        if all(gradient is None for _, _, gradient in found):
            found = [(known, name, _any_gradient(parameter, part)) for known, name, parameter, part in parameters]
        self._record(found)

    def finish_step(self):
        if self._possible and self._seen_in != self._session.generation and distributed.world_size() > 1:
            self._record([(known, name, _own_gradient(parameter, part))
                          for known, name, parameter, part in self._parameters(only_exchanged=True)])
        self._computed.clear()

    def _record(self, found):
        found = [(known, name, gradient) for known, name, gradient in found if gradient is not None]
        if distributed.world_size() == 1 and all(self._computed.get((id(known), name)) == _place(gradient) is not None
                                                 for known, name, gradient in found):
            return
        for known, name, gradient in found:
            _native.reduced_gradient(known.base, name, gradient)

    def _parameters(self, only_exchanged=False):
        """(known module, name, parameter, None) of all that are trained. Of one in a flat parameter of FSDP1: that one, and (offset, count) of
        its elements in what this rank stores."""
        for _, root in self._modules.places():
            if only_exchanged and not any(map(_exchanges, root.modules())):
                continue
            flats = [flat for module in root.modules() if type(module).__name__ == "FullyShardedDataParallel"
                     for flat in layout.flat_parameters(module)]
            inside = {id(flat) for flat in flats}
            known_of = {}
            for known in self._modules.recorded(root):
                module = known.reference()
                known_of[id(module)] = known
                for name, parameter in self._modules.parameters(module).items():
                    if parameter.requires_grad and id(parameter) not in inside:
                        yield known, name, parameter, None
            for flat in flats:
                for owner, name, _, piece, offset in layout.parts_of_flat(flat):
                    # With use_orig_params they are parameters of their modules, too.
                    if piece is not None and piece[0] < piece[1] and id(owner) in known_of and name not in owner._parameters:
                        yield known_of[id(owner)], name, flat, (offset, piece[1] - piece[0])


def _place(gradient):
    """What tells whether a gradient is still what it was; None: nothing does."""
    try:
        return (gradient.data_ptr(), gradient._version) if gradient.data_ptr() else None
    except Exception:  # without a storage of its own
        return None


def _exchanges(module):
    """Whether gradients have been exchanged when the backward pass is over. Megatron's wrapper of the same name waits for its optimizer."""
    kind = type(module)
    return ((kind.__name__ in ("DistributedDataParallel", "FullyShardedDataParallel") or hasattr(kind, "_get_fsdp_state"))
            and not hasattr(kind, "finish_grad_sync"))
