"""Results of MindSpore's functions against each other: by quotients, as the Python tool's MindSpore part
takes them."""
import math

from msprobe import _native
from msprobe._free_benchmark.comparison import RatioComparison
from msprobe.mindspore import values
from msprobe.mindspore.free_benchmark import perturbation


class Comparison(RatioComparison):
    flags = _native.PERTURB_QUOTIENTS
    is_floating = staticmethod(perturbation.is_floating)
    host = values.HostTensor

    @property
    def tensor_types(self):
        return values.tensor_types()

    @staticmethod
    def count(tensor):
        return math.prod(tensor.shape)

    def by_ratio(self, original, perturbed, threshold=0.0):
        return [verdict for verdict in super().by_ratio(original, perturbed, threshold)
                if self.is_floating_tensor(verdict.original)]

    @staticmethod
    def flipped(ratio):
        return ratio
