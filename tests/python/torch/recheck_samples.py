"""Runs the sample inputs of PyTorch's own operator tests under capture, forward and backward, and can plant a fault into every operator on the way.

usage: recheck_samples.py OUTPUT [--operators NAME,...] [--samples N] [--dtypes NAME,...] [--fault KIND] [--device cpu|cuda] [--part I/N] [--tf32]

The samples are PyTorch's installed `op_db`, used as data. OUTPUT becomes a dump; with --fault, OUTPUT.planted.json lists the calls whose results were
changed. --part takes every N-th operator, beginning with the I-th: parts run beside each other.
"""
import argparse
import functools
import json
import sys
import types
import unittest
import warnings

import torch

# Operators whose installed implementation is wrong or leaves values undefined: what they compute is not evidence.
LEFT_OUT = {"empty_like", "new_empty", "new_empty_strided", "empty", "jiterator_unary", "jiterator_binary", "jiterator_4inputs_with_extra_args",
            "jiterator_binary_return_by_ref", "jiterator_2inputs_2outputs", "resize_", "resize_as_"}


def changed(result, change):
    """The first floating tensor of a result, changed; None where the change would not show."""
    out = result[0] if isinstance(result, (tuple, list)) else result
    if not isinstance(out, torch.Tensor) or not out.is_floating_point() or out.numel() == 0 or not bool(torch.isfinite(out).all()):
        return None
    wrong = change(out.detach().clone())
    if wrong is None:
        return None
    # A change that is as small as the rounding of 16-bit types is no fault.
    if float((wrong.double() - out.detach().double()).abs().max()) <= 0.25 * float(out.detach().double().abs().max()):
        return None
    return wrong


def wrong_element(out):
    flat = out.reshape(-1)
    flat[out.numel() // 2] = flat.abs().max() * -1.5 - 1
    return out


def missing_scale(out):
    return out * 2.5


def swapped_axes(out):
    return out.transpose(-1, -2).reshape(out.shape) if out.dim() >= 2 else None


def window_off_by_one(out):
    return torch.roll(out, 1, -1) if out.dim() >= 1 else None


def stale_tile(out):
    flat = out.reshape(-1)
    tile = max(1, out.numel() // 4)
    flat[:tile] = flat[-tile:].clone()
    return out


CHANGES = {"wrong element": wrong_element, "missing scale": missing_scale, "swapped axes": swapped_axes, "window off by one": window_off_by_one,
           "stale tile": stale_tile}


def in_bfloat16(function, *arguments, **named):
    """As a kernel would that adds up in bfloat16."""
    narrow = [a.bfloat16() if isinstance(a, torch.Tensor) and a.dtype == torch.float32 else a for a in arguments]
    named = {key: a.bfloat16() if isinstance(a, torch.Tensor) and a.dtype == torch.float32 else a for key, a in named.items()}
    return function(*narrow, **named)


def with_wrong_epsilon(function, *arguments, **named):
    """eps of layer_norm and its like, ten times too large."""
    arguments = list(arguments)
    if "eps" in named:
        named["eps"] = named["eps"] * 10 + 1e-4
    elif len(arguments) > 4:
        arguments[4] = arguments[4] * 10 + 1e-4
    else:
        named["eps"] = 1e-4
    return function(*arguments, **named)


RECOMPUTED = {"accumulation in bfloat16": (in_bfloat16, {"linear", "matmul", "mm", "bmm", "addmm", "baddbmm", "einsum", "sum", "mean", "layer_norm"}),
              "wrong eps": (with_wrong_epsilon, {"layer_norm", "group_norm", "instance_norm"})}
KINDS = [*CHANGES, *RECOMPUTED]
# Copies and views are not recomputed by kernels: nothing to plant.
FAULTY = {"add", "sub", "mul", "div", "exp", "log", "sigmoid", "tanh", "gelu", "silu", "relu", "softmax", "log_softmax", "matmul", "mm", "bmm", "addmm",
          "baddbmm", "einsum", "linear", "layer_norm", "group_norm", "instance_norm", "sum", "mean", "cat", "sqrt", "rsqrt", "where", "mse_loss",
          "cross_entropy", "embedding", "pow", "permute", "transpose", "conv1d", "conv2d", "conv_transpose2d", "max_pool2d", "avg_pool2d",
          "adaptive_avg_pool2d", "interpolate", "sort", "topk", "gather", "index_select", "scatter", "scatter_add", "index_add", "max", "inverse", "cholesky", "cholesky_solve", "det"}


class Planting:
    """Faulty functions in the place of PyTorch's, before capture wraps them."""

    def __init__(self, kind):
        self.kind, self.is_on, self.depth, self.calls = kind, False, 0, {}
        for prefix, module in (("Torch", torch), ("Functional", torch.nn.functional)):
            for name in sorted(FAULTY):
                if hasattr(module, name):
                    setattr(module, name, self.faulty(f"{prefix}.{name}", name, getattr(module, name)))

    def faulty(self, called, name, function):
        @functools.wraps(function)
        def call(*arguments, **named):
            # Only the outermost call is captured: F.relu calls torch.relu, and axes that are swapped twice are right again.
            if not self.is_on or self.depth:
                return function(*arguments, **named)
            planted = self.calls.setdefault(called, [])
            planted.append(False)  # capture counts calls that raise, too
            self.depth += 1
            try:
                result = function(*arguments, **named)
                wrong = self.fault(function, name, result, arguments, named)
            finally:
                self.depth -= 1
            planted[-1] = wrong is not None
            return result if wrong is None else wrong
        return call

    def fault(self, function, name, result, arguments, named):
        """What the call gives instead; None where nothing is planted."""
        if self.kind in CHANGES:
            return changed(result, CHANGES[self.kind])
        if name not in RECOMPUTED[self.kind][1] or not isinstance(result, torch.Tensor) or result.dtype != torch.float32 or not result.numel():
            return None
        recomputed = RECOMPUTED[self.kind][0](function, *arguments, **named).float()
        off = (recomputed.double() - result.double()).abs()
        # Where bfloat16 happens to be as good as float32 nothing went wrong.
        return recomputed.detach() if bool(torch.isfinite(off).all()) and bool((off > 1e-3 * result.double().abs().max()).any()) else None

    def names(self):
        return [f"{called}.{index}.forward" for called, planted in self.calls.items() for index, is_planted in enumerate(planted) if is_planted]


def tensors_of(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_of(item)
    elif isinstance(value, dict):
        yield from tensors_of(list(value.values()))


def run(info, sample, with_gradients):
    op = info.op  # by a name of its own the call is recorded; by an attribute that kept the function from before the capture it is not
    result = op(sample.input, *sample.args, **sample.kwargs)
    outputs = [t for t in tensors_of(result) if t.requires_grad and t.is_floating_point()]
    inputs = [t for t in tensors_of([sample.input, sample.args, sample.kwargs]) if t.requires_grad]
    if with_gradients and outputs and inputs:
        torch.autograd.grad(outputs, inputs, [torch.randn_like(t) for t in outputs], allow_unused=True)


def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False):
    """F.scaled_dot_product_attention of PyTorch 1.13, which has it under another name."""
    return torch.nn.functional._scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, False, is_causal)[0]


def attention_samples(dtype, device):
    """(arguments, named arguments) of calls."""
    for shape in ((2, 3, 5, 8), (4, 6, 16), (1, 2, 40, 32)):
        length = shape[-2]
        for named in ({}, {"is_causal": True}, {"attn_mask": (torch.rand(length, length).gt(0.3) | torch.eye(length).bool()).to(device)},
                      {"attn_mask": torch.randn(length, length).to(device, dtype)}):
            yield [torch.randn(*shape).to(device, dtype).requires_grad_() for _ in range(3)], named


def run_attention(debugger, dtypes, device):
    """Not in op_db under the name that dumps have."""
    for dtype in dtypes:
        for arguments, named in attention_samples(dtype, device):
            debugger.start()
            torch.nn.functional.scaled_dot_product_attention(*arguments, **named).float().sum().backward()
            debugger.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("--operators", default="")
    parser.add_argument("--samples", type=int, default=1000000)
    parser.add_argument("--dtypes", default="float32,float64,bfloat16,float16")
    parser.add_argument("--fault", choices=KINDS)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--part", default="0/1", metavar="I/N")
    parser.add_argument("--tf32", action="store_true", help="let a GPU round the factors of float32 products")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = given.tf32
    part, parts = map(int, given.part.split("/"))
    if not hasattr(torch.nn.functional, "scaled_dot_product_attention") and hasattr(torch.nn.functional, "_scaled_dot_product_attention"):
        torch.nn.functional.scaled_dot_product_attention = attention
    planting = Planting(given.fault) if given.fault else None
    from msprobe.pytorch import PrecisionDebugger
    config = given.output + ".config.json"
    with open(config, "w", encoding="utf-8") as file:
        json.dump({"task": "tensor", "dump_path": given.output, "level": "L1", "rank": [], "step": [], "tensor": {}}, file)
    debugger = PrecisionDebugger(config_path=config)
    stand_in = types.ModuleType("expecttest")  # what the module imports to test itself
    stand_in.TestCase, stand_in.ACCEPT = unittest.TestCase, False
    sys.modules.setdefault("expecttest", stand_in)
    from torch.testing._internal.common_methods_invocations import op_db
    wanted = set(filter(None, given.operators.split(",")))
    count, raised = 0, {}
    chosen = [info for info in op_db if info.name.split(".")[-1] not in LEFT_OUT and (not wanted or info.name.split(".")[-1] in wanted)]
    for info in chosen[part::parts]:
        for dtype in (getattr(torch, word) for word in given.dtypes.split(",")):
            if not info.supports_dtype(dtype, given.device):
                continue
            gradients = not planting and info.supports_autograd and dtype in info.supported_backward_dtypes(given.device)
            try:
                samples = list(info.sample_inputs(given.device, dtype, requires_grad=gradients))
            except Exception as error:  # samples that need what is not installed
                raised[f"{info.name} {dtype}"] = repr(error)
                continue
            debugger.start()
            for sample in samples[::max(1, len(samples) // given.samples)][:given.samples]:
                if planting:
                    planting.is_on = True
                try:
                    run(info, sample, gradients)
                    count += 1
                except Exception as error:  # samples that PyTorch itself refuses
                    raised[f"{info.name} {dtype}"] = repr(error)
                if planting:
                    planting.is_on = False
            debugger.stop()
    if not planting and part == 0 and (not wanted or "scaled_dot_product_attention" in wanted):
        # In float16 it is not there on every CPU.
        run_attention(debugger, [getattr(torch, word) for word in given.dtypes.split(",") if word != "float16" or given.device != "cpu"], given.device)
    debugger.step()
    if planting:
        with open(given.output + ".planted.json", "w", encoding="utf-8") as file:
            json.dump(planting.names(), file)
    with open(given.output + ".raised.json", "w", encoding="utf-8") as file:
        json.dump(raised, file)
    print(f"{count} samples, {len(raised)} operators and dtypes raised")


if __name__ == "__main__":
    main()
