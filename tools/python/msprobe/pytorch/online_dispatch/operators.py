"""Which operators are checked: those that compute something that can be computed again."""
import torch

from msprobe.pytorch.online_dispatch import native_forms

# Run as they are: views, copies, factories, random numbers; the Python tool's list.
_UNTOUCHED = frozenset("""
    max_pool2d_with_indices detach allreduce_ max npu_rotary_mul split_with_sizes npu_dtype_cast add_
    _cudnn_rnn _local_scalar_dense _pin_memory _to_copy _unsafe_view clone contiguous copy_
    cudnn_batch_norm cudnn_batch_norm_backward empty index_put_ lift_fresh
    max_pool2d_with_indices_backward native_batch_norm_backward new_empty new_empty_strided new_full
    new_ones new_zeros ones ones_like permute rand rand_like randint randint_like randn randn_like
    randperm scalar_tensor select to transpose unbind view zero zero_ zeros zeros_like
    """.split())

# Ours: what leaves elements undefined, or computes nothing.
_UNDEFINED = frozenset("""
    empty_like empty_strided resize_ set_ lift record_stream is_same_size equal full_like fill_
    is_pinned _has_compatible_shallow_copy_type alias
    """.split())

# Steps: a number that is not exact in the tensor's dtype may fall on the other side in another one.
_DISCONTINUOUS = frozenset("""
    remainder remainder_ fmod fmod_ floor_divide floor_divide_ round round_ bucketize searchsorted
    histc threshold threshold_ threshold_backward
    """.split())

# Calls of an operator of which the library may be wrong, or know too little, before it is not asked
# again.
_MOST_VAIN = 3

_seeded = getattr(getattr(torch, "Tag", None), "nondeterministic_seeded", None)


class Operator:
    """What is known of an overload, asked once."""

    __slots__ = ("name", "is_checked", "is_dropout", "keeps_dtypes", "writes", "is_native", "_vain")

    def __init__(self, function, untouched):
        self.name = function.__name__.split(".")[0]
        self.is_dropout = "dropout" in self.name and "backward" not in self.name
        self.keeps_dtypes = self.name in _DISCONTINUOUS
        self.writes = any(argument.alias_info is not None and argument.alias_info.is_write
                          for argument in function._schema.arguments)
        random = _seeded is not None and _seeded in getattr(function, "tags", ())
        self.is_checked = (
            str(function).startswith("aten.") and self.name not in _UNTOUCHED
            and self.name not in _UNDEFINED and self.name not in untouched
            and (not random or self.is_dropout) and _computes(function._schema))
        self.is_native = (self.is_checked and not self.is_dropout and not self.keeps_dtypes
                          and native_forms.is_known(self.name))
        self._vain = 0

    def note_vain(self):
        """The library could not tell, or was overruled."""
        self._vain += 1
        if self._vain >= _MOST_VAIN:  # threads of process_num may count at once
            self.is_native = False


def _computes(schema):
    """Whether there are tensors among the arguments, and results that are not views of them."""
    if not any("Tensor" in str(argument.type) for argument in schema.arguments):
        return False
    return bool(schema.returns) and all(
        result.alias_info is None or result.alias_info.is_write for result in schema.returns)


def known(name):
    """Whether there is such an operator."""
    return isinstance(name, str) and hasattr(torch.ops.aten, name)
