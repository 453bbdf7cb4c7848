"""Two results of one function: verdicts as rows."""
import math

import torch

from msprobe import _native
from msprobe.pytorch.free_benchmark.perturbation import on_host

_NUMBER_OFFSET = 1e-8


class Verdict:
    """Of one element of a result. `ratio`: a number, "symbol_flipping", or None where there is none.
    `details`: (mean ratio, elements beyond the threshold, index of the worst, born, gone)."""

    __slots__ = ("consistent", "ratio", "original", "index", "details")

    def __init__(self, consistent, ratio, original, index, details=None):
        self.consistent = consistent
        self.ratio = ratio
        self.original = original
        self.index = index
        self.details = details

    @property
    def max_rel(self):
        if isinstance(self.ratio, float):
            return self.ratio - 1
        return "" if self.ratio is None else self.ratio


def has_numbers(result):
    """Whether a result holds a floating tensor, at its top or one level below."""
    if isinstance(result, bool):
        return False
    values = result if isinstance(result, (list, tuple)) else [result]
    return any(isinstance(value, torch.Tensor) and value.is_floating_point() or
               isinstance(value, (list, tuple)) and
               any(isinstance(item, torch.Tensor) and item.is_floating_point() for item in value)
               for value in values)


def _host(tensor):
    return tensor.detach() if on_host(tensor) else tensor.detach().cpu()


class Comparison:
    def __init__(self, settings):
        self._flags = ((_native.PERTURB_BACKWARD if settings.stage == "backward" else 0) |
                       (_native.PERTURB_COMPAT if settings.compat else 0))
        self._compat = settings.compat
        self._exact = settings.mode == "no_change"

    def by_ratio(self, original, perturbed, threshold=0.0):
        """Verdicts of all elements. `threshold` 0: that of the dtype of each."""
        if not has_numbers(perturbed):
            return []
        if not isinstance(original, (list, tuple)):
            return [self._of_element(original, perturbed, None, threshold)]
        others = perturbed if isinstance(perturbed, (list, tuple)) else []
        return [self._of_element(value, others[index], index, threshold)
                for index, value in enumerate(original) if index < len(others)]

    def _of_element(self, original, perturbed, index, threshold):
        if isinstance(perturbed, torch.Tensor):
            if not isinstance(original, torch.Tensor) or original.numel() != perturbed.numel():
                return Verdict(True, None, original, index)
            return self._of_tensors(original, perturbed, index, threshold)
        if isinstance(perturbed, int):
            return Verdict(original == perturbed, None, original, index)
        if isinstance(perturbed, float):
            if perturbed == 0:
                original, perturbed = original + _NUMBER_OFFSET, _NUMBER_OFFSET
            return Verdict(math.isclose(original, perturbed), original / perturbed, original, index)
        return Verdict(True, None, original, index)

    def _of_tensors(self, original, perturbed, index, threshold):
        ratio, mean, exceeding, worst, born, gone, flips, consistent = _native.compare_ratios(
            _host(original), _host(perturbed), 1.0 if self._exact else threshold, self._flags)
        details = (mean, exceeding, worst, born, gone)
        if (born or gone) and not self._compat and consistent:
            return Verdict(False, "nan_or_inf", original, index, details)
        return Verdict(consistent, "symbol_flipping" if flips else ratio, original, index, details)

    def with_cpu(self, actual, golden):
        """Whether all of a device's result agrees with the CPU's."""
        if isinstance(actual, torch.Tensor):
            if not isinstance(golden, torch.Tensor) or actual.numel() != golden.numel():
                return False
            return actual.numel() == 0 or _native.compare_with_cpu(_host(actual), golden,
                                                                   self._flags)[0]
        if isinstance(actual, dict):
            return (isinstance(golden, dict) and actual.keys() == golden.keys() and
                    all(self.with_cpu(value, golden[key]) for key, value in actual.items()))
        if isinstance(actual, (list, tuple)):
            return (isinstance(golden, (list, tuple)) and len(actual) == len(golden) and
                    all(map(self.with_cpu, actual, golden)))
        if isinstance(actual, float):
            return math.isclose(actual, golden)
        return actual == golden
