"""Two results of one function: verdicts as rows."""
import math

from msprobe import _native

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


class RatioComparison:
    """A framework says what its tensors are, and where their values lie."""

    tensor_types = ()
    flags = 0  # beside those of the settings

    def __init__(self, settings):
        self._flags = (self.flags | (_native.PERTURB_BACKWARD if settings.stage == "backward" else 0) |
                       (_native.PERTURB_COMPAT if settings.compat else 0))
        self._compat = settings.compat
        self._exact = settings.mode == "no_change"

    @staticmethod
    def is_floating(tensor):
        raise NotImplementedError

    @staticmethod
    def count(tensor):
        """Of its elements."""
        raise NotImplementedError

    @staticmethod
    def host(tensor):
        """Its values where they can be read."""
        raise NotImplementedError

    def by_ratio(self, original, perturbed, threshold=0.0):
        """Verdicts of all elements. `threshold` 0: that of the dtype of each."""
        if not self._has_numbers(perturbed):
            return []
        if not isinstance(original, (list, tuple)):
            return [self._of_element(original, perturbed, None, threshold)]
        others = perturbed if isinstance(perturbed, (list, tuple)) else []
        return [self._of_element(value, others[index], index, threshold)
                for index, value in enumerate(original) if index < len(others)]

    def _has_numbers(self, result):
        """Whether a result holds a floating tensor, at its top or one level below."""
        if isinstance(result, bool):
            return False
        values = result if isinstance(result, (list, tuple)) else [result]
        return any(self.is_floating_tensor(value) or isinstance(value, (list, tuple)) and
                   any(map(self.is_floating_tensor, value)) for value in values)

    def is_floating_tensor(self, value):
        return isinstance(value, self.tensor_types) and self.is_floating(value)

    def _of_element(self, original, perturbed, index, threshold):
        if isinstance(perturbed, self.tensor_types):
            if (not isinstance(original, self.tensor_types) or
                    self.count(original) != self.count(perturbed)):
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
            self.host(original), self.host(perturbed), 1.0 if self._exact else threshold,
            self._flags)
        details = (mean, exceeding, worst, born, gone)
        if (born or gone) and not self._compat and consistent:
            return Verdict(False, "nan_or_inf", original, index, details)
        return Verdict(consistent, self.flipped(ratio) if flips else ratio, original, index, details)

    @staticmethod
    def flipped(_ratio):
        """What stands for the ratio where large values have opposite signs."""
        return "symbol_flipping"
