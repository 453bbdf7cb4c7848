"""A device with a wrong kernel, which trains the tiny GPT of train.py: see docs/how-to/which-of-the-two-is-wrong.md.

The kernel of GELU is replaced below PyTorch: the script, its arguments and its gradients stay as they are.
"""
import os
import runpy

import torch

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "train.py")


def fast_gelu(x, approximate="none"):  # pylint: disable=unused-argument
    return x * torch.sigmoid(1.702 * x)  # good to two digits


if __name__ == "__main__":
    kernels = torch.library.Library("aten", "IMPL")
    kernels.impl("gelu", fast_gelu, "CPU")
    runpy.run_path(SCRIPT, run_name="__main__")
