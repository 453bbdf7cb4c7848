"""training.py for PyTorch: what its scripts import Run from.

MSPROBE_TEST_DEVICE: the device that everything is made on, "cuda" for instance; the CPU if it is not set.
"""
import gc
import inspect
import os
import random
import re

import numpy
import torch
import training

DEVICE = os.environ.get("MSPROBE_TEST_DEVICE", "cpu")


def seeded_generator(seed=5):
    """Random numbers of this device that are the same in every run."""
    return torch.Generator(DEVICE).manual_seed(seed)


def bytes_of(value):
    """A tensor's dtype, shape and values; None for anything else."""
    if not isinstance(value, torch.Tensor):
        return None
    value = value.detach()
    if hasattr(value, "to_local"):
        value = value.to_local()
    if value.layout != torch.strided:
        value = value.to_dense()
    held = str((value.dtype, tuple(value.shape))).encode()
    if value.numel():
        held += bytes(value.cpu().contiguous().flatten().view(torch.uint8).numpy())
    return held


def statistics(tensor):
    """[shape, largest, smallest, mean, norm] in float64; None for what has no such numbers."""
    tensor = tensor.detach()
    if tensor.dtype.is_complex or not tensor.numel():
        return [list(tensor.shape), None, None, None, None]
    values = tensor.cpu().to(torch.float64)
    numbers = [values.max(), values.min(), values.mean(), values.norm()]
    if tensor.dtype == torch.bool:
        numbers[2:] = []
    return [list(tensor.shape)] + [float(number) for number in numbers] + [None] * (4 - len(numbers))


def chunks_of(model):
    """A model may be a list of chunks, as pipelines have them."""
    return model if isinstance(model, (list, tuple)) else [model]


def is_readable(value):
    """Whether this is a tensor with one shape and values: nested ones have no shape, those within torch.func's transformations no values."""
    return isinstance(value, torch.Tensor) and not value.is_nested and not (
        hasattr(torch._C, "_functorch") and torch._C._functorch.is_functorch_wrapped_tensor(value))


def part_of_rank(value):
    """A DTensor as what this rank holds of it, which is what a dump describes."""
    return value.to_local() if hasattr(value, "to_local") else value


def accumulated(parameter, gradient):
    """What .grad becomes with the gradient of one more backward pass."""
    before = parameter.grad
    if before is None or type(before) is not type(gradient) or before.shape != gradient.shape:
        return gradient
    return before + gradient


class Witness(training.Witness):
    """Inputs and outputs of modules, gradients of parameters."""

    def __init__(self):
        super().__init__(lambda value: statistics(part_of_rank(value)) if is_readable(value) else None)

    def watch(self, model, optimizer):
        for number, chunk in enumerate(chunks_of(model)):
            prefix = "%d." % number if isinstance(model, (list, tuple)) else ""
            for name, module in chunk.named_modules():
                if name:
                    self._watch_module(module, "Module.%s%s.%s" % (prefix, name, type(module).__name__))

    def _watch_module(self, module, name):
        self._handles += [module.register_forward_pre_hook(lambda _, args: self.put_inputs(name, args)),
                          module.register_forward_hook(lambda _, args, result: self.put_outputs(name, result))]
        for key, parameter in module.named_parameters(recurse=False):
            if parameter.requires_grad:
                self._handles.append(parameter.register_hook(
                    lambda gradient, key=key, parameter=parameter: self.put(
                        "%s.parameters_grad" % name, {key: (accumulated(parameter, gradient),)})))


class Run(training.TrainingRun):
    package = "msprobe.pytorch"

    def __init__(self, makes_on_device=True):
        """makes_on_device: whatever is made without a word about its device is made on DEVICE. Frameworks that bring a model and its data
        there themselves do not want that."""
        self._makes_on_device = makes_on_device
        super().__init__()

    def prepare(self):
        torch.set_num_threads(1)
        if DEVICE != "cpu":
            # Kernels that add up in another order in each run would hide what a capture changes.
            os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
            torch.use_deterministic_algorithms(True, warn_only=True)
            if self._makes_on_device:
                torch.set_default_device(DEVICE)
        torch.manual_seed(11)

    def make_witness(self):
        return Witness()

    def watch(self, model, optimizer=None, named_parameters=None):
        """To be called once, before the first step. model may be a list of chunks. optimizer may be a function
        that gives one later. named_parameters: where the model's own are not those that are trained."""
        self._parameters = named_parameters or (
            lambda: [pair for chunk in chunks_of(model) for pair in chunk.named_parameters()])
        super().watch(model, optimizer)

    def made(self, optimizer):
        """The optimizer itself, where the script gave a function that makes it later."""
        return optimizer() if callable(optimizer) and not hasattr(optimizer, "step") else optimizer

    def note(self, table, named):
        """What the monitor is to say in this table of the step that is running: named() gives {name of a row: its tensor}."""
        if self._asked.get("note"):
            rows = self._noted.setdefault(table, {}).setdefault(str(self._done), {})
            for name, tensor in named().items():
                rows[name] = statistics(tensor)

    def end_step(self, *losses, optimizer=None):
        """After the optimizer's step, before gradients are set to zero."""
        self.finish_step(lambda: self._state(losses, self.made(optimizer or self._optimizer)))

    def _state(self, losses, optimizer):
        named = list(self._parameters())
        state = {"losses": losses,
                 "gradients": [(name, parameter.grad, getattr(parameter, "main_grad", None)) for name, parameter in named],
                 "parameters": named,
                 "buffers": [pair for chunk in chunks_of(self._model) for pair in chunk.named_buffers()],
                 "optimizer": optimizer.state_dict() if optimizer is not None else None,
                 "random generators": [torch.get_rng_state(), numpy.random.get_state(), random.getstate()]}
        if DEVICE == "cuda":
            state["generator of the device"] = torch.cuda.get_rng_state()
        return {what: training.digest(values, bytes_of) for what, values in state.items()}

    def resources(self):
        held = super().resources()
        if DEVICE == "cuda":
            gc.collect()
            torch.cuda.synchronize()
            held["device memory"] = torch.cuda.memory_allocated()
        return held

    def plant_fault(self, model, name):
        found = [module for chunk in chunks_of(model) for path, module in chunk.named_modules() if path == name]
        if not found:
            raise RuntimeError("there is no module " + name)
        forward = found[0].forward

        def wrong(*args, **kwargs):
            result = forward(*args, **kwargs)
            if isinstance(result, torch.Tensor):
                return result * 1.02
            return type(result)([result[0] * 1.02]) + result[1:]

        found[0].forward = wrong

    def hooks_of(self, model):
        import torch.distributed
        import torch.nn.modules.module as globals_of_modules
        import torch.utils.checkpoint
        places = {}
        for number, chunk in enumerate(chunks_of(model)):
            for name, module in chunk.named_modules():
                place = "%d:%s" % (number, name)
                # fully_shard() puts a number into the names of its attributes, which is another one in each run
                attributes = sorted(re.sub("_[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", "", name) for name in module.__dict__)
                places[place] = [type(module).__qualname__, attributes,
                                 {key: len(value) for key, value in module.__dict__.items()
                                  if key.endswith("_hooks") and value is not None}]
            for name, parameter in chunk.named_parameters():
                places["%d:parameter %s" % (number, name)] = [
                    sorted(parameter.__dict__), len(parameter._backward_hooks or ()),
                    len(getattr(parameter, "_post_accumulate_grad_hooks", None) or ())]
        for holder in (torch, torch.Tensor, torch.nn.functional, torch._C._VariableFunctions, torch.nn.Module,
                       torch.optim.Optimizer, torch.autograd, torch.autograd.Function, torch.distributed,
                       torch.utils.checkpoint, torch.nn.utils, torch._C._nn, torch.linalg, torch.fft, torch.special):
            for name in dir(holder):
                value = inspect.getattr_static(holder, name, None)
                if callable(value) or isinstance(value, (staticmethod, classmethod, property)):
                    places["%s.%s" % (getattr(holder, "__name__", type(holder).__name__), name)] = id(value)
        for name, value in vars(globals_of_modules).items():
            if name.startswith("_global_") and isinstance(value, dict):
                places["modules." + name] = len(value)
        if hasattr(torch.overrides, "_get_current_function_mode_stack"):
            places["function modes"] = len(torch.overrides._get_current_function_mode_stack())
        return places
