"""Trains a small GPT on the device of MSPROBE_TEST_DEVICE and prints a digest of all that it computed: what the tests of
commands run with and without msprobe.

    commands_train.py [--steps N] [--device NAME] [--dropout P] [--autocast DTYPE] [--sgd] [--scale MODULE] [--wrong-backward MODULE] [--nan STEP]

The first weights and all data are made on the CPU: they are the same on every device.
"""
import argparse
import contextlib
import hashlib
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
from models import TinyGPT, WrongGradient  # noqa: E402

DEVICE = os.environ.get("MSPROBE_TEST_DEVICE", "cuda")


def make_repeatable():
    """Two runs compute the same bits, and float32 is float32."""
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False


def generators():
    """The state of all random generators."""
    states = [torch.get_rng_state()]
    if DEVICE.startswith("cuda"):
        states += [torch.cuda.get_rng_state(number) for number in range(torch.cuda.device_count())]
    return states


def bits_of(tensor):
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def change(model, options):
    """Plants the fault that is asked for."""
    for path, changed in ((options.scale, lambda call: lambda *x: call(*x) * 1.02),
                          (options.wrong_backward, lambda call: lambda *x: call(WrongGradient.apply(x[0]), *x[1:]))):
        if path:
            module = model.get_submodule(path)
            module.forward = changed(module.forward)


def make_nan(model):
    module = model.blocks[1].ln2
    original = module.forward
    module.forward = lambda x: torch.log(original(x).detach().abs() * 0 - 1) + original(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--device", default=DEVICE)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--autocast")
    parser.add_argument("--sgd", action="store_true", help="every call of the optimizer is the same on every device")
    parser.add_argument("--scale")
    parser.add_argument("--wrong-backward")
    parser.add_argument("--nan", type=int)
    options = parser.parse_args()
    make_repeatable()
    torch.manual_seed(3)
    model = TinyGPT()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = options.dropout
    change(model, options)
    model = model.to(options.device)
    optimizer = (torch.optim.SGD(model.parameters(), lr=0.1, foreach=False) if options.sgd
                 else torch.optim.AdamW(model.parameters(), lr=1e-3))
    digest = hashlib.sha256()
    cast = (torch.autocast(options.device.split(":")[0], dtype=getattr(torch, options.autocast)) if options.autocast
            else contextlib.nullcontext())
    for step in range(options.steps):
        if options.nan == step:
            make_nan(model)
        words = torch.randint(0, 32, (4, 8), generator=torch.Generator().manual_seed(step))
        words, targets = words.to(options.device), words.flatten().roll(-1).to(options.device)
        with cast:
            loss = F.cross_entropy(model(words).flatten(0, -2), targets)
        optimizer.zero_grad()
        loss.backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        optimizer.step()
        for tensor in [loss] + gradients + list(model.state_dict().values()) + generators():
            digest.update(bits_of(tensor))
        print("loss %.9g" % loss.item())
    print("digest " + digest.hexdigest())


if __name__ == "__main__":
    main()
