"""Where the optimizers of training frameworks keep gradients and moments of a parameter.

An adapter is chosen by the optimizer's class name. Those of Megatron and DeepSpeed go by the
attributes that these frameworks give their optimizers; nothing of them is imported.
"""
import torch


def own_gradient(tensor, main_gradients):
    """The gradient of a parameter: Megatron's main_grad first, where it is asked for."""
    if main_gradients:
        gradient = getattr(tensor, "main_grad", None)
        if gradient is not None:
            return gradient
    return tensor.grad


def sign_agreement(gradient, moment):
    """The share of elements in which a gradient and its moment point the same way; zeros count
    half."""
    if gradient.shape != moment.shape:
        return torch.zeros((), device=gradient.device)
    with torch.no_grad():
        products = torch.sign(gradient) * torch.sign(moment)
        return (products.to(torch.float32).sum() / max(gradient.numel(), 1) + 1) / 2


def make(watched):
    """The adapter of watched.optimizer."""
    optimizer = watched.optimizer
    name = type(optimizer).__name__
    members = getattr(optimizer, "chained_optimizers", None)
    if name == "ChainedOptimizer" and members:
        name = "Chained" + type(members[0]).__name__
    return _ADAPTERS.get(name, Generic)(watched)


class Generic:
    """A state per parameter, looked up by the parameter itself, in an optimizer or in those that it chains: what a chain calls its
    state is another mapping, by the number of the member as well."""

    def __init__(self, watched):
        self.watched = watched

    @property
    def optimizer(self):
        return self.watched.optimizer

    def refresh(self, parameters):
        """Before each use: what frameworks build late or anew."""

    def gradient(self, parameter):
        return own_gradient(parameter.tensor, self.watched.main_gradients)

    def state(self, parameter):
        return self._state_by(parameter.tensor)

    def value(self, parameter):
        """What this rank holds of the parameter itself."""
        return parameter.tensor.detach()

    def members(self):
        return getattr(self.optimizer, "chained_optimizers", None) or [self.optimizer]

    def _state_by(self, key):
        for member in self.members():
            state = _state_of(member, key)
            if state is not None:
                return state
        return None


def _state_of(optimizer, key):
    """The state of one tensor, None without; a look-up makes no empty one."""
    for holder in (getattr(optimizer, "param_to_cpu_states_map", None),
                   getattr(optimizer, "state", None),
                   getattr(getattr(optimizer, "optimizer", None), "state", None)):
        if holder:
            return holder.get(key)
    return None


class _Members(Generic):
    """Optimizers that update other tensors than the parameters of the model."""

    def _pairs(self, low_name, high_name):
        """{parameter of the model: the one the optimizer updates}, of groups in lists."""
        pairs = {}
        for member in self.members():
            low_groups = _needed(member, low_name)
            high_groups = _needed(member, high_name)
            for low_group, high_group in zip(low_groups, high_groups):
                for low, high in zip(low_group, high_group):
                    pairs[low] = high
        return pairs


def _needed(optimizer, name):
    value = getattr(optimizer, name, None)
    if value is None:
        raise AttributeError("%s has no %s: its moments cannot be found"
                             % (type(optimizer).__name__, name))
    return value


class MegatronFloat16(_Members):
    """Float16OptimizerWithFloat16Params: states belong to fp32 copies of the parameters."""

    groups_names = ("float16_groups", "fp32_from_float16_groups")

    def __init__(self, watched):
        super().__init__(watched)
        self._masters = {}

    def refresh(self, parameters):
        self._masters = self._pairs(*self.groups_names)

    def state(self, parameter):
        return self._state_by(self._masters.get(parameter.tensor, parameter.tensor))


class DeepSpeedUnfused(MegatronFloat16):
    """FP16_UnfusedOptimizer: DeepSpeed in half precision without ZeRO."""

    groups_names = ("fp16_groups", "fp32_groups")


class MegatronDistributed(_Members):
    """DistributedOptimizer: each rank has the states of its shard of every parameter."""

    def __init__(self, watched):
        super().__init__(watched)
        self._shards = {}
        self._first = None

    def refresh(self, parameters):
        self._shards = {}
        for low_name, high_name in (("model_float16_groups", "shard_fp32_from_float16_groups"),
                                    ("model_fp32_groups", "shard_fp32_groups")):
            if low_name == "model_fp32_groups" and not all(
                    hasattr(member, name) for member in self.members()
                    for name in (low_name, high_name)):
                continue
            pairs = self._pairs(low_name, high_name)
            self._shards.update((low, high) for low, high in pairs.items() if high is not None)
        # The partition of a rank begins inside the first of its parameters.
        self._first = next((parameter.tensor for parameter in parameters
                            if parameter.tensor in self._shards), None)

    def gradient(self, parameter):
        shard = self._shards.get(parameter.tensor)
        whole = own_gradient(parameter.tensor, self.watched.main_gradients)
        if shard is None or whole is None:
            return None
        size = shard.numel()
        if size >= whole.numel():
            return whole
        flat = whole.reshape(-1)
        return flat[-size:] if parameter.tensor is self._first else flat[:size]

    def state(self, parameter):
        shard = self._shards.get(parameter.tensor)
        return None if shard is None else self._state_by(shard)


# ---- DeepSpeed ----

def _narrowed(state, start, length):
    """The part of flat states that belongs to one parameter; what is not a flat tensor stays."""
    if state is None:
        return None
    return {key: value.narrow(0, start, length)
            if isinstance(value, torch.Tensor) and value.dim() == 1
            and value.numel() >= start + length else value for key, value in state.items()}


class _DeepSpeed(Generic):
    """Parameters by group and position; states are flat, one per group."""

    groups_name = ""

    def __init__(self, watched):
        super().__init__(watched)
        self._positions = {}

    def refresh(self, parameters):
        if self._positions:
            return
        for group, members in enumerate(_needed(self.optimizer, self.groups_name)):
            for index, tensor in enumerate(members):
                self._positions[tensor] = (group, index)

    def position(self, parameter):
        return self._positions.get(parameter.tensor)

    def flat_state(self, flat):
        return _state_of(self.optimizer, flat)


class DeepSpeedStage0(_DeepSpeed):
    """BF16_Optimizer: every rank has all gradients, and the states of its part of each flat group."""

    groups_name = "bf16_groups"

    def gradient(self, parameter):
        place = self.position(parameter)
        return None if place is None else (
            self.optimizer.fp32_groups_gradient_dict[place[0]][place[1]])

    def state(self, parameter):
        place = self.position(parameter)
        if place is None:
            return None
        group, index = place
        flat = self.optimizer.fp32_groups_flat_partition[group]
        start = sum(tensor.numel() for tensor in self.optimizer.bf16_groups[group][:index])
        start -= flat.numel() * self._part(group)
        end = min(start + parameter.tensor.numel(), flat.numel())
        start = max(start, 0)
        return _narrowed(self.flat_state(flat), start, end - start) if start < end else None

    def _part(self, group):
        """Which of the parts of this group the rank has."""
        counts = getattr(self.optimizer, "partition_count", None)
        if counts is None or counts[group] == 1:
            return 0
        return torch.distributed.get_rank(self.optimizer.real_dp_process_group[group])


class DeepSpeedStage12(_DeepSpeed):
    """DeepSpeedZeroOptimizer: each rank has a slice of every flat group."""

    groups_name = "bit16_groups"

    def __init__(self, watched):
        super().__init__(watched)
        self._slices = []

    def refresh(self, parameters):
        super().refresh(parameters)
        if not self._slices:
            # {name: fragment with start and numel} per group, of this rank's partition alone.
            self._slices = list(self.optimizer.state_dict()["param_slice_mappings"])
            self._names = getattr(self.optimizer, "param_names", {})
            self._offsets = [self._offset(group)
                             for group in range(len(self.optimizer.bit16_groups))]

    def _fragment(self, tensor, group):
        return self._slices[group].get(self._names.get(tensor))

    def _offset(self, group):
        """The last of the group's leading parameters that are outside this partition, or -1."""
        last = -1
        for index, tensor in enumerate(self.optimizer.bit16_groups[group]):
            if self._fragment(tensor, group) is not None:
                break
            last = index
        return last

    def gradient(self, parameter):
        place = self.position(parameter)
        fragment = None if place is None else self._fragment(parameter.tensor, place[0])
        if fragment is None:
            return None
        group, index = place
        if getattr(self.optimizer, "cpu_offload", False):
            flat = self.optimizer.single_partition_of_fp32_groups[group].grad
            return None if flat is None else flat.narrow(0, fragment.start, fragment.numel)
        gradients = self.optimizer.averaged_gradients.get(group)
        return None if gradients is None else gradients[index - self._offsets[group] - 1]

    def state(self, parameter):
        place = self.position(parameter)
        fragment = None if place is None else self._fragment(parameter.tensor, place[0])
        if fragment is None:
            return None
        flat = self.optimizer.single_partition_of_fp32_groups[place[0]]
        return _narrowed(self.flat_state(flat), fragment.start, fragment.numel)


class DeepSpeedStage3(_DeepSpeed):
    """DeepSpeedZeroOptimizer_Stage3: every parameter is spread over all ranks."""

    groups_name = "fp16_groups"

    def gradient(self, parameter):
        place = self.position(parameter)
        if place is None:
            return None
        gradients = self.optimizer.averaged_gradients.get(place[0])
        return None if gradients is None else gradients[place[1]]

    def value(self, parameter):
        """Between calls of its module a parameter is empty; DeepSpeed keeps this rank's part of it beside it."""
        part = getattr(parameter.tensor, "ds_tensor", None)
        return super().value(parameter) if part is None or parameter.tensor.numel() else part.detach()

    def state(self, parameter):
        place = self.position(parameter)
        if place is None:
            return None
        number = self.optimizer.get_param_id(parameter.tensor)
        start, length = self.optimizer.grad_position[number][1:]
        flat = self.optimizer.fp32_partitioned_groups_flat[place[0]]
        return _narrowed(self.flat_state(flat), start, length)


_ADAPTERS = {
    "Float16OptimizerWithFloat16Params": MegatronFloat16,
    "ChainedFloat16OptimizerWithFloat16Params": MegatronFloat16,
    "DistributedOptimizer": MegatronDistributed,
    "SwapDistributedOptimizer": MegatronDistributed,
    "ChainedDistributedOptimizer": MegatronDistributed,
    "ChainedSwapDistributedOptimizer": MegatronDistributed,
    "FP16_UnfusedOptimizer": DeepSpeedUnfused,
    "BF16_Optimizer": DeepSpeedStage0,
    "DeepSpeedZeroOptimizer": DeepSpeedStage12,
    "DeepSpeedZeroOptimizer_Stage3": DeepSpeedStage3,
}

# Classes that frameworks put around an optimizer of PyTorch.
WRAPPERS = frozenset(_ADAPTERS) | {"ChainedOptimizer"}
