"""Results of PyTorch's functions against each other."""
import math

import torch

from msprobe import _native
from msprobe._free_benchmark.comparison import RatioComparison
from msprobe.pytorch.free_benchmark.perturbation import on_host


class Comparison(RatioComparison):
    tensor_types = torch.Tensor

    @staticmethod
    def is_floating(tensor):
        return tensor.is_floating_point()

    @staticmethod
    def count(tensor):
        return tensor.numel()

    @staticmethod
    def host(tensor):
        return tensor.detach() if on_host(tensor) else tensor.detach().cpu()

    def with_cpu(self, actual, golden):
        """Whether all of a device's result agrees with the CPU's."""
        if isinstance(actual, torch.Tensor):
            if not isinstance(golden, torch.Tensor) or actual.numel() != golden.numel():
                return False
            # A call that names its device, as Tensor.to does, is not moved to the CPU with its arguments.
            return actual.numel() == 0 or _native.compare_with_cpu(self.host(actual), self.host(golden), self._flags)[0]
        if isinstance(actual, dict):
            return (isinstance(golden, dict) and actual.keys() == golden.keys() and
                    all(self.with_cpu(value, golden[key]) for key, value in actual.items()))
        if isinstance(actual, (list, tuple)):
            return (isinstance(golden, (list, tuple)) and len(actual) == len(golden) and
                    all(map(self.with_cpu, actual, golden)))
        if isinstance(actual, float):
            return math.isclose(actual, golden)
        return actual == golden
