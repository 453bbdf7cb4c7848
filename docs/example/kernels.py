"""A device whose GELU is the usual approximation: see docs/how-to/check-operators.md."""
from torch.nn import functional


def approximate_gelu(x, approximate="none"):  # pylint: disable=unused-argument
    return functional.gelu(x, approximate="tanh")


operators = {"gelu": {"reference": functional.gelu, "device": approximate_gelu}}
