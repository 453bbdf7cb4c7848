"""Packages that are not to be found. vLLM's build for the CPU brings torchvision, torchaudio and torchcodec, which may have kernels
for CUDA only and do not load beside PyTorch for the CPU; they are for pictures and sound, which no model here has."""
import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import only_packages  # noqa: E402, F401

for _name in ("torchvision", "torchaudio", "torchcodec"):
    sys.modules[_name] = None
