"""Engines that got a trainer's weights, rightly and with the mistakes that syncs make: a digest of each. Used by scripts of several ranks."""
import os

import torch

import msprobe.weights


def untied(model):
    """A Gpt whose embedding is not its head, so that every parameter is of one place."""
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    return model


def write(folder, plain, before, held):
    """`plain`: a model without parts. `before`, `held`: {name: whole tensor}, before and after the trainer's step.
    FOLDER/engine has what is held; the other folders a mistake each."""
    def engine(name, tensors):
        plain.load_state_dict(tensors)
        msprobe.weights.digest(plain, os.path.join(folder, name), layout={"rank": 0, "world_size": 1})

    engine("engine", held)
    engine("stale", {name: before[name] if name.startswith("blocks.1.") else tensor for name, tensor in held.items()})
    name = next(name for name, tensor in held.items() if tensor.dim() == 2 and name.startswith("blocks.0."))
    half = held[name].shape[0] // 2
    engine("shard", dict(held, **{name: torch.cat([held[name][:half], before[name][half:]])}))
    other = name.replace("blocks.0.", "blocks.1.")
    engine("swapped", dict(held, **{name: held[other], other: held[name]}))
    engine("scale", dict(held, **{name: held[name] / 0.02}))
    os.makedirs(os.path.join(folder, "lost"))
    os.link(os.path.join(folder, "trainer", "digest_rank0.json"), os.path.join(folder, "lost", "digest_rank0.json"))
