"""Faults of known kind and place.

A fault knows what it changes and when; `describe()` says so in words. Operator faults change the
results of ATen operators (see kernels.py), the others change parameters, data, random state,
modules or the optimizer around a step.
"""
import types

import torch
import torch.nn as nn
import torch.nn.functional as F

import kernels

# Operators whose results are allocated or copied, not computed.
_NOT_COMPUTED = {"zeros_like", "ones_like", "empty_like", "zeros", "ones", "empty", "full", "fill_", "zero_", "detach",
                 "_to_copy", "bernoulli_", "native_dropout", "arange", "new_zeros", "new_empty", "full_like", "copy_",
                 "scalar_tensor", "lift_fresh", "rand_like", "triu", "randn", "normal_", "uniform_", "empty_strided"}


class Training:
    """What faults may touch."""

    def __init__(self, model, optimizer, setup):
        self.model, self.optimizer, self.setup = model, optimizer, setup


class Fault:
    kind = ""
    # Kinds that a right answer may give.
    def __init__(self, **choice):
        self.choice = choice
        self.__dict__.update(choice)

    def operators(self):
        """[(Place, change(func, args, kwargs, result))]"""
        return []

    def before_step(self, training, step, batch):
        return batch

    def before_update(self, training, step):
        pass

    def describe(self):
        return dict(kind=self.kind, **self.choice)


# ---- operators ----


def _magnitude(rng, setup):
    return 10 ** rng.uniform(*setup["sizes_of_faults"])


def _permuted(tensor):
    flat = tensor.reshape(-1)
    rows = tensor.shape[-1] if tensor.dim() > 1 else 2
    if flat.numel() % rows or flat.numel() == rows:
        return tensor.flip(0)
    return flat.view(rows, -1).t().reshape(tensor.shape)


def _damage(style, size, tensor, seed):
    """`tensor` as a faulty kernel would have given it."""
    value = tensor.to(torch.float64) if style in ("scaled", "noisy") else tensor
    if style == "scaled":
        value = value * (1 + size)
    elif style == "noisy":
        generator = torch.Generator().manual_seed(seed)
        value = value * (1 + size * torch.randn(tensor.shape, generator=generator, dtype=torch.float64))
    elif style == "rounded":  # as reduced-precision units give it
        value = tensor.to(torch.bfloat16) if tensor.dtype == torch.float32 else tensor * (1 + 2.0 ** -5)
    elif style == "cut_tail":
        value = tensor.clone()
        value.reshape(-1)[-max(1, tensor.numel() // 8):] = 0
    elif style == "strided":
        value = _permuted(tensor)
    elif style in ("nan", "inf"):
        value = tensor.clone()
        value.view(-1)[seed % tensor.numel()] = float(style)
    return value.to(tensor.dtype)


class OperatorFault(Fault):
    """One operator gives other results; from a step on, or in that step only."""

    def operators(self):
        steps = [self.step] if self.once else range(self.step, self.steps)
        return [(kernels.Place(step, self.phase, self.op, self.nth), self._change) for step in steps]

    def _change(self, func, args, kwargs, result):
        first = next(kernels.tensors(result))
        if self.style == "eps":
            other = func(*[max(arg * 1e3, 1e-3) if isinstance(arg, float) and 0 < arg < 1e-4 else arg
                           for arg in args], **kwargs)
            first.copy_(next(kernels.tensors(other)))
        elif self.style == "tanh":
            first.copy_(F.gelu(args[0], approximate="tanh"))
        else:
            plain = first.clone(memory_format=torch.contiguous_format)
            first.copy_(_damage(self.style, self.size, plain, self.noise_seed))
        return result

    @classmethod
    def choose(cls, rng, setup, trace, kind, phase, step, styles=None):
        ops = [op for op in trace
               if op["step"] == step and op["phase"] == phase and op["floating"] and not op["view"]
               and op["numel"] > 1 and op["op"] not in _NOT_COMPUTED]
        if kind == "inplace":
            ops = [op for op in ops if op["op"].endswith("_")]
        if not ops:
            return None
        names = sorted({op["op"] for op in ops})
        name = rng.choice(names)
        op = rng.choice([op for op in ops if op["op"] == name])
        choices = list(styles or ["scaled", "scaled", "noisy", "rounded", "cut_tail"])
        if styles is None and name == "gelu":
            choices += ["tanh"] * 3
        if styles is None and name in ("native_layer_norm", "native_group_norm", "native_batch_norm"):
            choices += ["eps"] * 3
        fault = cls(phase=phase, step=step, op=name, nth=op["nth"], modules=op["modules"], style=rng.choice(choices),
                    size=_magnitude(rng, setup) * rng.choice([1, -1]), noise_seed=rng.randrange(2 ** 31),
                    once=kind == "one step" or rng.random() < 0.3, steps=setup["steps"])
        fault.kind = kind
        return fault


# ---- around a step ----


def _parameter(training, name):
    model = training.model
    return dict(list(model.named_parameters()) + list(model.named_buffers()))[name]


class WeightFault(Fault):
    kind = "weight"

    def before_step(self, training, step, batch):
        if step == self.step:
            with torch.no_grad():
                if self.style == "all_redrawn":  # another initialisation or checkpoint
                    generator = torch.Generator().manual_seed(self.noise_seed)
                    for parameter in training.model.parameters():
                        parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
                    return batch
                parameter = _parameter(training, self.parameter)
                if self.style == "element":
                    parameter.view(-1)[self.noise_seed % parameter.numel()] += 0.1
                elif self.style == "redrawn":
                    generator = torch.Generator().manual_seed(self.noise_seed)
                    parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
                elif self.style in ("nan", "inf"):
                    parameter.view(-1)[self.noise_seed % parameter.numel()] = float(self.style)
                else:
                    parameter.copy_(_damage(self.style, self.size, parameter.detach(), self.noise_seed))
        return batch

    @classmethod
    def choose(cls, rng, setup, parameters, step, buffers):
        if buffers and rng.random() < 0.2:
            parameters = buffers
        return cls(step=step, parameter=rng.choice(parameters), size=_magnitude(rng, setup) * 3,
                   style=rng.choice(["scaled", "scaled", "noisy", "rounded", "element", "redrawn", "all_redrawn"]),
                   noise_seed=rng.randrange(2 ** 31))


class InputFault(Fault):
    kind = "input"

    def before_step(self, training, step, batch):
        if step != self.step:
            return batch
        batch = dict(batch)
        value = batch[self.part].clone()
        if self.style == "element" or not value.is_floating_point():
            if value.is_floating_point():
                value.view(-1)[self.noise_seed % value.numel()] += 0.5
            else:
                flat = value.view(-1)
                place = self.noise_seed % value.numel()
                flat[place] = (flat[place] + 1) % 4
        elif self.style == "shuffled":
            value = value.flip(0)
        elif self.style in ("nan", "inf"):
            value.view(-1)[self.noise_seed % value.numel()] = float(self.style)
        else:
            value = value * (1 + self.size)
        batch[self.part] = value
        return batch

    @classmethod
    def choose(cls, rng, setup, parts, step):
        return cls(step=step, part=rng.choice(parts), style=rng.choice(["element", "shuffled", "scaled"]),
                   size=_magnitude(rng, setup), noise_seed=rng.randrange(2 ** 31))


class SeedFault(Fault):
    kind = "seed"

    def before_step(self, training, step, batch):
        if step == self.step:
            torch.manual_seed(self.noise_seed)
        return batch

    @classmethod
    def choose(cls, rng, setup, step):
        return cls(step=step, noise_seed=rng.randrange(2 ** 31))


class OptimizerFault(Fault):
    kind = "optimizer"

    def before_update(self, training, step):
        if step != self.step:
            return
        group = training.optimizer.param_groups[0]
        if self.style == "learning_rate":
            group["lr"] *= self.factor
        elif self.style == "weight_decay":
            group["weight_decay"] = self.factor * 0.1
        elif self.style == "eps":
            if "eps" in group:
                group["eps"] *= 1e3
            else:
                group["lr"] *= 0.8
        elif self.style == "betas":
            if "betas" in group:
                group["betas"] = (0.5, 0.9)
            else:
                group["lr"] *= 1.5
        elif self.style == "skipped_parameter":
            _parameter(training, self.parameter).grad = None

    @classmethod
    def choose(cls, rng, setup, parameters, step):
        return cls(step=step, style=rng.choice(["learning_rate", "weight_decay", "betas", "eps", "skipped_parameter"]),
                   factor=rng.choice([0.5, 0.9, 1.1, 2.0, 10.0]), parameter=rng.choice(parameters))


class ModuleFault(Fault):
    """The forward of one module is another one from a step on."""

    def before_step(self, training, step, batch):
        if step == self.step:
            module = training.model.get_submodule(self.module)
            module.forward = types.MethodType(self.replace(type(module).forward), module)
        return batch


class DtypeFault(ModuleFault):
    """One layer computes in another dtype and casts back; its parameters may be stored in it too."""
    kind = "dtype"

    def before_step(self, training, step, batch):
        if step == self.step and self.stored:
            training.model.get_submodule(self.module).to(getattr(torch, self.dtype))
        return super().before_step(training, step, batch)

    def replace(self, original):
        dtype = getattr(torch, self.dtype)

        def forward(module, x):
            kept = {name: parameter for name, parameter in module._parameters.items() if parameter is not None}
            try:
                for name, parameter in kept.items():
                    del module._parameters[name]
                    setattr(module, name, parameter if self.stored else parameter.to(dtype))
                return original(module, x.to(dtype)).to(x.dtype)
            finally:
                for name, parameter in kept.items():
                    if name in module.__dict__:
                        delattr(module, name)
                    module._parameters[name] = parameter

        def forward_stored(module, x):
            return original(module, x.to(dtype)).to(x.dtype)

        return forward_stored if self.stored else forward

    @classmethod
    def choose(cls, rng, setup, modules, step):
        modules = [name for name, kind in modules if kind in ("Linear", "LayerNorm", "GELU", "SiLU", "Tanh")]
        other = "float32" if setup["background"].startswith("bf16") else rng.choice(["bfloat16", "float64"])
        return cls(step=step, module=rng.choice(modules), dtype=other,
                   # The state of an optimizer would not follow later.
                   stored=rng.random() < 0.5 and step == 0) if modules else None


class MissingFault(ModuleFault):
    """An activation, normalisation or dropout is left out."""
    kind = "missing"

    def replace(self, original):
        return lambda module, x: x

    @classmethod
    def choose(cls, rng, setup, modules, step):
        kinds = ("LayerNorm", "GELU", "SiLU", "Tanh", "BatchNorm2d", "BatchNorm1d", "GroupNorm", "_RMSNorm")
        modules = [name for name, kind in modules if kind in kinds]
        return cls(step=step, module=rng.choice(modules)) if modules else None


class ExtraFault(ModuleFault):
    """One operator more behind a module."""
    kind = "extra"

    def replace(self, original):
        after = {"scale": lambda y: y * 1.01, "relu": lambda y: F.relu(y), "clamp": lambda y: torch.clamp(y, -1, 1),
                 "tanh": lambda y: torch.tanh(y), "dropout": lambda y: F.dropout(y, 0.2)}[self.op]
        return lambda module, x: after(original(module, x))

    @classmethod
    def choose(cls, rng, setup, modules, step):
        kinds = ["Linear", "LayerNorm", "GELU", "SiLU", "Tanh", "Conv2d", "GroupNorm", "_FeedForward",
                 "BatchNorm2d", "BatchNorm1d", "_RMSNorm", "_SwiGLU", "_DoubleConv"]
        if setup["family"] == "InPlace":  # what follows would overwrite what the extra operator keeps
            kinds.remove("BatchNorm1d")
        modules = [name for name, kind in modules if kind in kinds]
        return cls(step=step, module=rng.choice(modules),
                   op=rng.choice(["scale", "relu", "clamp", "tanh", "dropout"])) if modules else None
