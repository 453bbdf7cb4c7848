"""Packages that are not to be found. vLLM's build for the CPU brings torchvision, torchaudio and torchcodec, which may have kernels
for CUDA only and do not load beside PyTorch for the CPU; they are for pictures and sound, which no model here has. And the folders
of tests beside this one look like packages."""
import importlib.machinery
import os
import sys

_TESTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir)
_FOLDERS = [_name for _name in os.listdir(_TESTS) if os.path.isdir(os.path.join(_TESTS, _name))]


def _is_a_mere_folder(name):
    spec = importlib.machinery.PathFinder.find_spec(name)
    return spec is not None and spec.origin is None


for _name in ["torchvision", "torchaudio", "torchcodec"] + list(filter(_is_a_mere_folder, _FOLDERS)):
    sys.modules[_name] = None
