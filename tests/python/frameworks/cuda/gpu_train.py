"""Trains a small model with something that only a GPU has.   usage: gpu_train.py FEATURE"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "torch"))
import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from harmless_models import Gpt, next_token_loss, tokens  # noqa: E402
from torch_training import DEVICE, Run, seeded_generator  # noqa: E402

FEATURES = {}


def feature(function):
    FEATURES[function.__name__] = function
    return function


def train(run, model, loss_of, optimizer=None):
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-2)
    run.watch(model, optimizer)
    for _ in run.steps():
        loss = loss_of()
        loss.backward()
        optimizer.step()
        run.end_step(loss)
        optimizer.zero_grad()
    run.close()


class Perceptron(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.first, self.second = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return self.second(F.gelu(self.first(x)))


@feature
def copied_from_pinned_memory(run):
    """As most trainings do it: made on the host, brought to the device, every batch in a copy that nobody waits for."""
    model = Perceptron().to(DEVICE)
    generator = torch.Generator().manual_seed(5)

    def loss_of():
        x = torch.randn(8, 16, generator=generator)
        if DEVICE == "cuda":
            x = x.pin_memory()
        return model(x.to(DEVICE, non_blocking=True)).square().mean()

    train(run, model, loss_of)


@feature
def several_streams(run):
    """Layers compute on streams of their own, and what they read is overwritten and given back as soon as that is allowed."""
    layers = nn.ModuleList([nn.Linear(256, 256) for _ in range(4)])
    head = nn.Linear(256, 256)
    model = nn.ModuleDict({"layers": layers, "head": head})
    streams = [torch.cuda.Stream() for _ in layers]
    generator = seeded_generator()

    def loss_of():
        x = torch.randn(512, 256, generator=generator)
        results = []
        main = torch.cuda.current_stream()
        for layer, stream in zip(layers, streams):
            stream.wait_stream(main)
            with torch.cuda.stream(stream):
                y = layer(x)
                with torch.no_grad():
                    scratch = torch.full_like(y, 7.0)   # its memory is given back at once, and taken by the next one
                    scratch.mul_(2)
                    del scratch
                results.append(torch.relu_(y * 1.0))
            main.wait_stream(stream)
            results[-1].record_stream(main)
        result = head(sum(results))
        with torch.no_grad():
            x.fill_(float("nan"))   # nobody may read the batch from now on
        return result.square().mean()

    # The weights of the layers keep x for their gradients: it may not be overwritten there.
    for layer in layers:
        layer.weight.requires_grad_(False)
    train(run, model, loss_of)


@feature
def whole_step_as_a_graph(run):
    """Forward, backward and the optimizer's step are recorded once and replayed."""
    model = Gpt()
    model.eval()   # the generator's state of a recorded dropout is the graph's own
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, capturable=True)
    ids = torch.zeros(2, 6, dtype=torch.long)
    generator = seeded_generator()

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = next_token_loss(model, ids)
        loss.backward()
        optimizer.step()
        return loss

    run.watch(model, optimizer)
    graph, loss = None, None
    for number in run.steps():
        ids.copy_(tokens(generator))
        if number == 0:   # kernels are chosen before a recording
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                loss = step()
            torch.cuda.current_stream().wait_stream(stream)
        else:
            if graph is None:
                graph = torch.cuda.CUDAGraph()
                with torch.cuda.graph(graph):
                    loss = step()
            graph.replay()
        run.end_step(loss.detach().clone())
    run.close()


@feature
def callables_as_graphs(run):
    """torch.cuda.make_graphed_callables: forward and backward of a module are graphs of their own."""
    inner, model = Perceptron(), nn.ModuleDict()
    model["inner"], model["head"] = inner, nn.Linear(16, 4)
    graphed = torch.cuda.make_graphed_callables(inner, (torch.randn(8, 16),))
    generator = seeded_generator()
    train(run, model, lambda: model["head"](graphed(torch.randn(8, 16, generator=generator))).square().mean())


@feature
def compiled_with_graphs(run):
    """torch.compile(mode="reduce-overhead"): Triton's kernels in CUDA graphs."""
    model = Perceptron()
    compiled = torch.compile(model, mode="reduce-overhead")
    generator = seeded_generator()
    train(run, model, lambda: compiled(torch.randn(8, 16, generator=generator)).square().mean())


@feature
def fused_attention(run, dtype):
    """The fused kernels of scaled_dot_product_attention, which take 16-bit types alone."""
    width, heads, kept = 64, 2, getattr(torch, dtype)
    model = nn.ModuleDict({"qkv": nn.Linear(width, 3 * width), "out": nn.Linear(width, width)}).to(kept)
    generator = seeded_generator()

    def loss_of():
        x = torch.randn(2, 32, width, generator=generator).to(kept)
        q, k, v = model["qkv"](x).view(2, 32, 3, heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return model["out"](attended.transpose(1, 2).reshape(2, 32, width)).float().square().mean()

    train(run, model, loss_of)


@feature
def fused_optimizer_under_a_scaler(run):
    """float16 with loss scaling: the scale, the overflow check and the step stay on the device."""
    model = Perceptron()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0 ** 24)   # so large that some steps are left out
    generator = seeded_generator()
    run.watch(model, optimizer)
    for _ in run.steps():
        with torch.autocast(DEVICE, dtype=torch.float16):
            loss = model(torch.randn(8, 16, generator=generator)).float().square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        run.end_step(loss, scaler.state_dict())
        optimizer.zero_grad()
    run.close()


def main(name, *arguments):
    FEATURES[name](Run(makes_on_device=name != "copied_from_pinned_memory"), *arguments)


main(*sys.argv[1:])
