"""Megatron-core makes its buffers on CUDA's device. Here that device is the CPU."""
import functools

import torch


def _on_cpu(function):
    @functools.wraps(function)
    def made(*arguments, **named):
        if str(named.get("device", "")).startswith("cuda"):
            named["device"] = "cpu"
        return function(*arguments, **named)

    return made


for _name in ("tensor", "empty", "zeros", "ones", "full", "arange", "as_tensor"):
    setattr(torch, _name, _on_cpu(getattr(torch, _name)))
torch.cuda.current_device = lambda: torch.device("cpu")
torch.cuda.synchronize = torch.cuda.nvtx.range_push = torch.cuda.nvtx.range_pop = lambda *_: None
torch.cuda.FloatTensor, torch.cuda.IntTensor = torch.FloatTensor, torch.IntTensor
torch.cuda.BFloat16Tensor = torch.BFloat16Tensor
torch.Tensor.cuda = lambda self, *_, **__: self
torch.nn.Module.cuda = lambda self, *_, **__: self

_type = torch.Tensor.type


def _type_on_cuda(self, *arguments, **named):
    return _type(self, *arguments, **named) if arguments or named else _type(self).replace("torch.", "torch.cuda.")


torch.Tensor.type = _type_on_cuda
