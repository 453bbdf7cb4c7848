"""Trains a small model with one feature of PyTorch.   usage: features.py FEATURE [ARGUMENT]"""
import contextlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "torch"))
import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from harmless_models import CausalAttention, Gpt, next_token_loss, tokens  # noqa: E402
from torch_training import DEVICE, Run, seeded_generator  # noqa: E402

FEATURES = {}


def feature(function):
    FEATURES[function.__name__] = function
    return function


def train(run, model, loss_of=next_token_loss, batch=tokens, optimizer=None, trained=None, around=contextlib.nullcontext):
    """trained: what is called, where that is not the model that is watched."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-2)
    trained = model if trained is None else trained
    run.watch(model, optimizer)
    generator = seeded_generator()
    for _ in run.steps():
        ids = batch(generator)
        with around():
            loss = loss_of(trained, ids)
        loss.backward()
        optimizer.step()
        run.end_step(loss)
        optimizer.zero_grad()
    run.close()


def infer(run, model, around=torch.no_grad):
    model.eval()
    run.watch(model)
    generator = seeded_generator()
    for _ in run.steps():
        with around():
            result = model(tokens(generator))
        run.end_step(result)
    run.close()


# ---- compilers ----

@feature
def compiled(run, backend):
    model = Gpt()
    train(run, model, trained=torch.compile(model, backend=backend))


@feature
def compiled_blocks(run, backend):
    """Only the blocks are compiled: what stands around them is seen."""
    model = Gpt()
    for block in model.blocks:
        block.compile(backend=backend)
    train(run, model)


@feature
def exported(run):
    """What torch.export made of a model, trained."""
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
    program = torch.export.export(model, (torch.randn(6, 8),))
    train(run, program.module(), lambda model, x: model(x).square().mean(),
          lambda generator: torch.randn(6, 8, generator=generator))


# ---- attention ----

class Attention(nn.Module):
    """A block around an attention function of (q, k, v)."""

    def __init__(self, attend, width=16, heads=2):
        super().__init__()
        self.attend, self.heads = attend, heads
        self.norm, self.qkv, self.out = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        x = x + self.out(self.attend(q, k, v).transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self, make_block):
        super().__init__()
        self.embed = nn.Embedding(24, 16)
        self.blocks = nn.ModuleList([make_block() for _ in range(2)])
        self.head = nn.Linear(16, 24)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


@feature
def scaled_dot_product_attention(run):
    train(run, Model(lambda: Attention(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=0.1))))


@feature
def flex_attention(run, how):
    """how: eager, or the backend of torch.compile. On the CPU it has no backward pass."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention as attend

    def causal(batch, head, q, k):
        return q >= k

    def near(score, batch, head, q, k):
        return score - 0.1 * (q - k)

    mask = create_block_mask(causal, None, None, 6, 6, device=DEVICE)
    if how != "eager":
        attend = torch.compile(attend, backend=how)
    infer(run, Model(lambda: Attention(lambda q, k, v: attend(q, k, v, score_mod=near, block_mask=mask), heads=1)))


@feature
def multihead_attention_fast_path(run):
    """nn.TransformerEncoder in evaluation takes one fused kernel per layer."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    model = nn.Sequential(nn.Linear(16, 16), nn.TransformerEncoder(layer, 2)).eval()
    run.watch(model)
    generator = seeded_generator()
    for _ in run.steps():
        with torch.no_grad():
            x = torch.randn(2, 5, 16, generator=generator)
            padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2])
            first, second = model(x), model[1](model[0](x), src_key_padding_mask=padding)
        run.end_step(first, second)
    run.close()


# ---- gradients ----

@feature
def activation_checkpointing(run, reentrant):
    train(run, Gpt(reentrant=reentrant == "reentrant"))


@feature
def functional_gradients(run):
    """torch.func: gradients of every sample by vmap over grad of functional_call."""
    from torch.func import functional_call, grad, vmap
    model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run.watch(model, optimizer)

    def loss_of(parameters, x, y):
        return (functional_call(model, parameters, (x[None],)) - y).square().sum()

    generator = seeded_generator()
    for _ in run.steps():
        x, y = torch.randn(4, 6, generator=generator), torch.randn(4, 1, generator=generator)
        parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
        of_samples = vmap(grad(loss_of), in_dims=(None, 0, 0))(parameters, x, y)
        for name, parameter in model.named_parameters():
            parameter.grad = of_samples[name].mean(0)
        optimizer.step()
        run.end_step(model(x), of_samples)
        optimizer.zero_grad()
    run.close()


# ---- optimizers ----

@feature
def optimizer(run, how):
    model = Gpt()
    made = {"foreach": lambda: torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=True),
            "fused": lambda: torch.optim.AdamW(model.parameters(), lr=1e-2, fused=True),
            "sgd": lambda: torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, nesterov=True, foreach=True),
            "lbfgs": lambda: torch.optim.LBFGS(model.parameters(), lr=1e-2)}[how]()
    if how != "lbfgs":
        return train(run, model, optimizer=made)
    run.watch(model, made)
    generator = seeded_generator()
    for _ in run.steps():
        ids = tokens(generator)

        def closure():
            made.zero_grad()
            loss = next_token_loss(model, ids)
            loss.backward()
            return loss

        run.end_step(made.step(closure))
    run.close()


@feature
def optimizer_in_backward(run):
    """Each parameter has an optimizer of its own, which steps as soon as its gradient is there."""
    model = Gpt()
    optimizers = {parameter: torch.optim.SGD([parameter], lr=1e-2) for parameter in model.parameters()}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    run.watch(model, optimizers[next(model.parameters())])
    generator = seeded_generator()
    for _ in run.steps():
        loss = next_token_loss(model, tokens(generator))
        loss.backward()
        run.end_step(loss)
    run.close()


# ---- types ----

@feature
def autocast(run, dtype):
    """Mixed precision, with a scaler of the loss where the type needs one."""
    model = Model(lambda: CausalAttention(16, 2))
    scaler = torch.amp.GradScaler(DEVICE, enabled=dtype == "float16") if hasattr(torch.amp, "GradScaler") else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    run.watch(model, optimizer)
    generator = seeded_generator()
    for _ in run.steps():
        with torch.autocast(DEVICE, dtype=getattr(torch, dtype)):
            loss = next_token_loss(model, tokens(generator))
        if scaler is None:
            loss.backward()
            optimizer.step()
        else:
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        run.end_step(loss, scaler and scaler.state_dict())
        optimizer.zero_grad()
    run.close()


class Float8Linear(nn.Linear):
    """Rounds its argument and its weight to eight bits, with a scale for each."""

    def __init__(self, incoming, outgoing, dtype):
        super().__init__(incoming, outgoing)
        self.dtype = dtype
        self.store, self.widen = nn.Identity(), nn.Identity()

    def round(self, x):
        scale = torch.finfo(self.dtype).max / x.detach().abs().max().clamp(min=1e-6)
        small = self.store((x * scale).to(self.dtype))
        return x + (small.to(x.dtype) / scale - x).detach()

    def forward(self, x):
        return F.linear(self.round(x), self.round(self.weight), self.bias)


@feature
def float8(run, dtype):
    train(run, Model(lambda: nn.Sequential(nn.LayerNorm(16), Float8Linear(16, 16, getattr(torch, dtype)), nn.GELU())))


# ---- whoever else intervenes ----

class Tagged(torch.Tensor):
    """A tensor with something more, which stays with all results."""

    @staticmethod
    def __new__(cls, data, tag=None):
        tensor = torch.Tensor._make_subclass(cls, data, data.requires_grad)
        tensor.tag = tag
        return tensor

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        result = super().__torch_function__(function, types, args, kwargs)
        tags = [argument.tag for argument in args if isinstance(argument, Tagged) and hasattr(argument, "tag")]
        if isinstance(result, Tagged) and tags:
            result.tag = tags[0]
        return result


@feature
def tensor_subclass(run):
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))

    def loss_of(model, x):
        result = model(x)
        if result.tag != "spam" or type(result) is not Tagged:
            raise RuntimeError("the tag was lost: %r" % result)
        return result.square().mean()

    train(run, model, loss_of, lambda generator: Tagged(torch.randn(6, 8, generator=generator), "spam"))


class TwoParts(torch.Tensor):
    """A wrapper without memory of its own: what it is stands in two tensors, as in sharded or quantised ones."""

    @staticmethod
    def __new__(cls, high, low):
        return torch.Tensor._make_wrapper_subclass(cls, high.shape, dtype=high.dtype, device=high.device,
                                                   requires_grad=False)

    def __init__(self, high, low):
        self.high, self.low = high, low

    def __tensor_flatten__(self):
        return ["high", "low"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return TwoParts(inner["high"], inner["low"])

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        from torch.utils._pytree import tree_map
        if function is torch.ops.aten.detach.default:
            return TwoParts(args[0].high, args[0].low)
        plain = tree_map(lambda value: value.high + value.low if isinstance(value, TwoParts) else value, (args, kwargs or {}))
        return function(*plain[0], **plain[1])


@feature
def tensor_wrapper(run):
    """Inputs are tensors without a data pointer."""
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))

    def batch(generator):
        x = torch.randn(6, 8, generator=generator)
        return TwoParts(x.bfloat16().float(), x - x.bfloat16().float())

    train(run, model, lambda model, x: model(x).square().mean(), batch)


@feature
def modes(run):
    """The user looks at functions and operators with modes. What they see of a capture are reads of attributes."""
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode
    seen = []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            seen.append(getattr(function, "__name__", str(function)))
            return function(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    model = Gpt()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    run.watch(model, optimizer)
    generator = seeded_generator()
    for _ in run.steps():
        with Functions(), Operators():
            loss = next_token_loss(model, tokens(generator))
        with Operators():
            loss.backward()
        optimizer.step()
        run.end_step(loss, len(seen) > 0)
        seen.clear()
        optimizer.zero_grad()
    run.close()


@feature
def inference(run):
    infer(run, Gpt(), torch.inference_mode)


@feature
def static_inputs(run):
    """As code around CUDA graphs: inputs, gradients and results have addresses that never change."""
    model = Gpt()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    ids, result = torch.zeros(2, 6, dtype=torch.long), torch.zeros(())
    run.watch(model, optimizer)
    generator = seeded_generator()
    addresses = set()
    for _ in run.steps():
        ids.copy_(tokens(generator))
        optimizer.zero_grad(set_to_none=False)
        loss = next_token_loss(model, ids)
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            result.copy_(loss)
        addresses.add((ids.data_ptr(), result.data_ptr(), tuple(parameter.grad.data_ptr() for parameter in model.parameters())))
        run.end_step(result, len(addresses))
    run.close()


@feature
def profiled(run):
    """torch.profiler is at work at the same time, with stacks and shapes."""
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True,
                                      with_modules=True, profile_memory=True)
    names = []

    @contextlib.contextmanager
    def around():
        with profiler:
            yield
        names.append(sorted({event.key for event in profiler.key_averages()
                             if event.key.startswith("aten::") and event.key not in MADE_BY_OBSERVERS}))
        if "aten::addmm" not in names[-1]:
            raise RuntimeError("the profiler has seen nothing: %s" % names[-1])

    train(run, Gpt(), around=around)


# What an observer may compute in the middle of a forward pass.
MADE_BY_OBSERVERS = ()


def main(name, *arguments):
    FEATURES[name](Run(), *arguments)


main(*sys.argv[1:])
