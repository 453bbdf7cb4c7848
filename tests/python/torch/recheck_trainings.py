"""Correct trainings of other people's shapes on a CPU, and faults of operators for their twins."""
import copy

import numpy
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def small(out=1, middle=nn.Tanh):
    return nn.Sequential(nn.Linear(4, 6), middle(), nn.Linear(6, out))


def batch(step, dtype, *shape):
    return torch.randn(*(shape or (3, 4)), generator=torch.Generator().manual_seed(step)).to(dtype)


def plain_step(run, model, loss, optimizer=None):
    """One update; `run.grads` are compared between precisions."""
    optimizer = optimizer or run.optimizer(model)
    optimizer.zero_grad()
    loss.backward()
    run.keep(model)
    optimizer.step()


class Run:
    """Two steps of one case."""

    def __init__(self, dtype):
        self.dtype = dtype
        self.grads = []
        self._optimizers = {}

    def optimizer(self, model):
        if id(model) not in self._optimizers:
            self._optimizers[id(model)] = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.05)
        return self._optimizers[id(model)]

    def keep(self, *models):
        self.grads += [p.grad.detach().to_dense().double().clone() for model in models for p in model.parameters() if p.grad is not None]


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.mid, self.head = nn.Embedding(12, 4), nn.Linear(4, 4), nn.Linear(4, 12, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, x):
        return self.head(torch.tanh(self.mid(self.emb(x))))


@case
def tied(run, step, state):
    model = state.setdefault("model", Tied().to(run.dtype))
    tokens = torch.tensor([[1, 2, 3, 2]])
    plain_step(run, model, F.cross_entropy(model(tokens).view(-1, 12), tokens.view(-1)))


@case
def shared_module(run, step, state):
    class Shared(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.act = nn.Linear(4, 4), nn.Tanh()

        def forward(self, x):
            return self.fc(self.act(self.fc(x)))

    model = state.setdefault("model", Shared().to(run.dtype))
    plain_step(run, model, model(batch(step, run.dtype)).pow(2).mean())


@case
def used_as_function(run, step, state):
    """A weight of a module in a function outside of it."""
    model = state.setdefault("model", small(4).to(run.dtype))
    y = model(batch(step, run.dtype))
    plain_step(run, model, (F.linear(y.detach(), model[0].weight).pow(2).mean() + y.pow(2).mean()))


@case
def weight_penalty(run, step, state):
    model = state.setdefault("model", small().to(run.dtype))
    plain_step(run, model, model(batch(step, run.dtype)).pow(2).mean() + 0.1 * sum(p.pow(2).sum() for p in model.parameters()))


def hooked(name, hook):
    def run_case(run, step, state):
        if not state:
            state["model"] = small().to(run.dtype)
            state["model"][0].weight.register_hook(hook)
        plain_step(run, state["model"], state["model"](batch(step, run.dtype)).pow(2).mean())
    CASES[name] = run_case


hooked("grad_hook", lambda g: g.clamp(-1e-3, 1e-3))
hooked("grad_hook_in_place", lambda g: (g.mul_(0.5), None)[1])
hooked("grad_hook_by_data", lambda g: (g.data.mul_(0.5), None)[1])


@case
def late_grad_hook(run, step, state):
    """Registered after the forward."""
    model = state.setdefault("model", small().to(run.dtype))
    loss = model(batch(step, run.dtype)).pow(2).mean()
    handle = model[0].weight.register_hook(lambda g: g * 3)
    plain_step(run, model, loss)
    handle.remove()


def module_hook(name, register):
    def run_case(run, step, state):
        if not state:
            state["model"] = small().to(run.dtype)
            register(state["model"][0])
        x = batch(step, run.dtype).requires_grad_()
        plain_step(run, state["model"], state["model"](x * 1).pow(2).mean())
    CASES[name] = run_case


module_hook("forward_hook", lambda m: m.register_forward_hook(lambda module, inputs, output: output * 2 + 1))
module_hook("forward_pre_hook", lambda m: m.register_forward_pre_hook(lambda module, inputs: (inputs[0] * 3,)))
module_hook("backward_hook", lambda m: m.register_full_backward_hook(lambda module, gi, go: (gi[0] * 5,) + gi[1:]))
module_hook("looking_hook", lambda m: m.register_forward_hook(lambda module, inputs, output: None))
module_hook("hook_on_output", lambda m: m.register_forward_hook(lambda module, inputs, output: output.register_hook(lambda g: g * 7) and None))
module_hook("hook_in_place", lambda m: m.register_forward_hook(lambda module, inputs, output: output.add_(1)))


@case
def own_forward(run, step, state):
    if not state:
        model = state["model"] = small().to(run.dtype)
        theirs = model[0].forward
        model[0].forward = lambda x: theirs(x) + 1
    plain_step(run, state["model"], state["model"](batch(step, run.dtype)).pow(2).mean())


@case
def patched_class(run, step, state):
    model = state.setdefault("model", small().to(run.dtype))
    theirs, nn.Tanh.forward = nn.Tanh.forward, lambda self, x: torch.tanh(x) * 1.5
    plain_step(run, model, model(batch(step, run.dtype)).pow(2).mean())
    nn.Tanh.forward = theirs


def tensor_hook(name, watch):
    """Hooks on tensors between modules."""
    def run_case(run, step, state):
        model = state.setdefault("model", small().to(run.dtype))
        x = batch(step, run.dtype).requires_grad_()
        h = model[0](x * 1)
        h = watch(h)
        a = watch(torch.tanh(h))
        plain_step(run, model, model[2](a).pow(2).mean())
    CASES[name] = run_case


def doubled(t):
    t.register_hook(lambda g: g * 2)
    return t


def kept(t):
    t.retain_grad()
    return t


tensor_hook("tensor_hook", doubled)
tensor_hook("retain_grad", kept)
tensor_hook("halves", lambda t: t.detach() * 0.5 + t * 0.5)


@case
def penalty(run, step, state):
    model = state.setdefault("model", small().to(run.dtype))
    x = batch(step, run.dtype).requires_grad_()
    y = model(x)
    slope, = torch.autograd.grad(y.sum(), x, create_graph=True)
    plain_step(run, model, y.mean() + (slope.norm(2, 1) - 1).pow(2).mean())


@case
def penalty_alone(run, step, state):
    model = state.setdefault("model", nn.Sequential(nn.Linear(4, 6), nn.LayerNorm(6), nn.SiLU(), nn.Linear(6, 1)).to(run.dtype))
    x = batch(step, run.dtype).requires_grad_()
    slope, = torch.autograd.grad(model(x).sum(), x, create_graph=True)
    plain_step(run, model, slope.pow(2).sum())


@case
def functions_penalty(run, step, state):
    """Double backward through functions of two factors."""
    model = state.setdefault("model", small().to(run.dtype))
    x = batch(step, run.dtype).requires_grad_()
    h = model[0](x)
    y = model[2](h * torch.sigmoid(h)) + (x.exp() * x).sum(1, keepdim=True)
    slope, = torch.autograd.grad(y.sum(), x, create_graph=True)
    plain_step(run, model, y.mean() + slope.pow(2).mean())


@case
def gan(run, step, state):
    if not state:
        state["g"], state["d"] = small(4).to(run.dtype), small(1).to(run.dtype)
    g, d = state["g"], state["d"]
    fake = g(batch(step, run.dtype))
    real = batch(step + 10, run.dtype).requires_grad_()
    out = d(real)
    slope, = torch.autograd.grad(out.sum(), real, create_graph=True)
    run.optimizer(d).zero_grad()
    (F.softplus(d(fake.detach())).mean() + F.softplus(-out).mean() + slope.pow(2).sum(1).mean()).backward()
    run.keep(d)
    run.optimizer(d).step()
    run.optimizer(g).zero_grad()
    F.softplus(-d(fake)).mean().backward()
    run.keep(g)
    run.optimizer(g).step()


class Plain(torch.Tensor):
    pass


class Logged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


def of_subclass(name, kind):
    def run_case(run, step, state):
        model = state.setdefault("model", nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 1)).to(run.dtype))
        h = model(batch(step, run.dtype).as_subclass(kind))
        h = torch.cat([F.relu(h), h * h, torch.chunk(h.exp(), 1)[0]])
        plain_step(run, model, h.pow(2).mean())
    CASES[name] = run_case


of_subclass("subclass", Plain)
of_subclass("logged_subclass", Logged)


class LowRank(nn.Linear):
    """Called Linear, as the layers of adapters are."""

    def __init__(self):
        super().__init__(4, 6)
        self.weight.requires_grad_(False)
        self.a, self.b = nn.Parameter(torch.randn(2, 4) * 0.3), nn.Parameter(torch.randn(6, 2) * 0.3)

    def forward(self, x):
        return super().forward(x) + x @ self.a.t() @ self.b.t()


LowRank.__name__ = "Linear"


class Norm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * (1 + self.weight)


Norm.__name__ = "RMSNorm"


@case
def adapters(run, step, state):
    model = state.setdefault("model", nn.Sequential(LowRank(), nn.Tanh(), Norm(6), nn.Linear(6, 1)).to(run.dtype))
    plain_step(run, model, model(batch(step, run.dtype)).pow(2).mean())


def checkpointed(name, **settings):
    def run_case(run, step, state):
        model = state.setdefault("model", small().to(run.dtype))
        x = batch(step, run.dtype).requires_grad_()
        plain_step(run, model, model[2](checkpoint(model[:2], x * 1, **settings)).pow(2).mean())
    CASES[name] = run_case


checkpointed("checkpoint_reentrant", use_reentrant=True)
checkpointed("checkpoint", use_reentrant=False)


@case
def accumulation(run, step, state):
    model = state.setdefault("model", small().to(run.dtype))
    run.optimizer(model).zero_grad()
    for part in range(3):
        (model(batch(step * 3 + part, run.dtype)).pow(2).mean() / 3).backward()
    run.keep(model)
    run.optimizer(model).step()


@case
def accumulation_over_steps(run, step, state):
    """No zero_grad between steps of the capture."""
    model = state.setdefault("model", small().to(run.dtype))
    model(batch(step, run.dtype)).pow(2).mean().backward()
    run.keep(model)


@case
def clipping(run, step, state):
    model = state.setdefault("model", small().to(run.dtype))
    run.optimizer(model).zero_grad()
    model(batch(step, run.dtype)).pow(2).mean().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-2)
    run.keep(model)
    run.optimizer(model).step()


@case
def weight_norm(run, step, state):
    if not state:
        state["model"] = small().to(run.dtype)
        torch.nn.utils.weight_norm(state["model"][0])
    plain_step(run, state["model"], state["model"](batch(step, run.dtype)).pow(2).mean())


@case
def parametrized(run, step, state):
    class Half(nn.Module):
        def forward(self, w):
            return w * 0.5

    if not state:
        state["model"] = small().to(run.dtype)
        torch.nn.utils.parametrize.register_parametrization(state["model"][0], "weight", Half())
        torch.nn.utils.parametrizations.spectral_norm(state["model"][2])
    plain_step(run, state["model"], state["model"](batch(step, run.dtype)).pow(2).mean())


@case
def averaged(run, step, state):
    """A second model that follows without gradients."""
    if not state:
        state["model"] = small().to(run.dtype)
        state["ema"] = copy.deepcopy(state["model"]).requires_grad_(False)
    model, ema = state["model"], state["ema"]
    x = batch(step, run.dtype)
    with torch.no_grad():
        target = ema(x)
    plain_step(run, model, (model(x) - target - 1).pow(2).mean())
    with torch.no_grad():
        for a, b in zip(ema.parameters(), model.parameters()):
            a.mul_(0.9).add_(b, alpha=0.1)


@case
def frozen(run, step, state):
    if not state:
        state["model"] = small().to(run.dtype)
        state["model"][0].requires_grad_(False)
        state["model"][2].bias.requires_grad_(False)
    plain_step(run, state["model"], state["model"](batch(step, run.dtype).requires_grad_()).pow(2).mean())


@case
def mixed_precision(run, step, state):
    model = state.setdefault("model", nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 6), nn.Softmax(-1), nn.Linear(6, 1)).to(run.dtype))
    with torch.autocast("cpu", torch.bfloat16, enabled=run.dtype == torch.float32):
        loss = model(batch(step, run.dtype)).float().pow(2).mean()
    plain_step(run, model, loss.to(run.dtype))


@case
def retained(run, step, state):
    model = state.setdefault("model", small().to(run.dtype))
    y = model(batch(step, run.dtype).requires_grad_())
    run.optimizer(model).zero_grad()
    y.pow(2).mean().backward(retain_graph=True)
    (y * 3).exp().mean().backward()
    run.keep(model)
    run.optimizer(model).step()


@case
def first_for_weights_then_for_inputs(run, step, state):
    model = state.setdefault("model", small().to(run.dtype))
    x = batch(step, run.dtype).requires_grad_()
    y = model(x)
    run.optimizer(model).zero_grad()
    y.pow(2).mean().backward(retain_graph=True)
    torch.autograd.grad(y.exp().sum(), x)
    run.keep(model)
    run.optimizer(model).step()


@case
def gradients_asked_for(run, step, state):
    """autograd.grad of the parameters, put into .grad by hand."""
    model = state.setdefault("model", small().to(run.dtype))
    parameters = list(model.parameters())
    found = torch.autograd.grad(model(batch(step, run.dtype)).pow(2).mean(), parameters)
    for parameter, gradient in zip(parameters, found):
        parameter.grad = gradient
    run.keep(model)
    run.optimizer(model).step()


class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g * 0.5


@case
def custom_function(run, step, state):
    model = state.setdefault("model", small(4).to(run.dtype))
    h = model(batch(step, run.dtype))
    plain_step(run, model, (Straight.apply(h.detach()) * 0 + h).pow(2).mean() + (Straight.apply(h * 0.0) + h).mean())


@case
def in_place(run, step, state):
    model = state.setdefault("model", nn.Sequential(nn.Linear(4, 6), nn.ReLU(inplace=True), nn.Linear(6, 1)).to(run.dtype))
    x = batch(step, run.dtype)
    h = model[1](model[0](x))
    h = h + 0
    h[0] = h[1] * 2
    h += 0.25
    h.mul_(1.5).clamp_(-2, 2)
    plain_step(run, model, F.silu(model[2](h), inplace=True).pow(2).mean())


@case
def functional_call(run, step, state):
    model = state.setdefault("model", small().to(run.dtype))
    call = torch.nn.utils.stateless.functional_call if not hasattr(torch, "func") else torch.func.functional_call
    scaled = {name: parameter * 2 for name, parameter in model.named_parameters()}
    plain_step(run, model, call(model, scaled, (batch(step, run.dtype),)).pow(2).mean())


@case
def recurrent_and_attention(run, step, state):
    if not state:
        state["model"] = nn.ModuleDict({"rnn": nn.LSTM(4, 4, batch_first=True), "attention": nn.MultiheadAttention(4, 2, batch_first=True),
                                        "norm": nn.BatchNorm1d(4)}).to(run.dtype)
    model = state["model"]
    h, _ = model["rnn"](batch(step, run.dtype, 2, 3, 4))
    h, _ = model["attention"](h, h, h)
    plain_step(run, model, (model["norm"](h.flatten(0, 1)) * batch(7, run.dtype, 6, 4)).pow(2).mean())


@case
def rows_of_tables(run, step, state):
    """Embeddings whose forward or backward is not that of a plain table."""
    if not state:
        state["model"] = nn.ModuleDict({"pad": nn.Embedding(9, 4, padding_idx=2), "freq": nn.Embedding(9, 4, scale_grad_by_freq=True),
                                        "norm": nn.Embedding(9, 4, max_norm=0.5), "sparse": nn.Embedding(9, 4, sparse=True)}).to(run.dtype)
    model = state["model"]
    tokens = torch.tensor([[1, 2, 3, 2, 1, 1]])
    y = sum(part(tokens) for part in model.values())
    plain_step(run, model, (y * batch(step, run.dtype, 1, 6, 4)).pow(2).mean())


@case
def broadcast_and_views(run, step, state):
    model = state.setdefault("model", small(4).to(run.dtype))
    h = model(batch(step, run.dtype).t().contiguous().t())
    y = h[:, None, :].expand(3, 2, 4).transpose(0, 1).reshape(6, 4)[::2, 1:] + h.mean(0)[None, 1:] + h.new_ones(3, 3)
    plain_step(run, model, torch.where(y > 0, y, y * 0.1).masked_fill(y > 1, 1.0).norm(dim=-1).logsumexp(0))


@case
def closure(run, step, state):
    model = state.setdefault("model", small().to(run.dtype))
    optimizer = state.setdefault("optimizer", torch.optim.LBFGS(model.parameters(), max_iter=2, lr=0.05))
    x = batch(step, run.dtype)

    def evaluated():
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        return loss
    optimizer.step(evaluated)
    run.keep(model)


@case
def sharpness(run, step, state):
    """Two passes with other weights in one step."""
    model = state.setdefault("model", small().to(run.dtype))
    x = batch(step, run.dtype)
    run.optimizer(model).zero_grad()
    model(x).pow(2).mean().backward()
    moves = [p.grad * 0.05 for p in model.parameters()]
    with torch.no_grad():
        for p, move in zip(model.parameters(), moves):
            p.add_(move)
    model.zero_grad()
    model(x).pow(2).mean().backward()
    with torch.no_grad():
        for p, move in zip(model.parameters(), moves):
            p.sub_(move)
    run.keep(model)
    run.optimizer(model).step()


@case
def replaced_data(run, step, state):
    model = state.setdefault("model", small().to(run.dtype))
    loss = model(batch(step, run.dtype)).pow(2).mean()
    plain_step(run, model, loss)
    for p in model.parameters():
        p.data = p.data * 0.99


@case
def passed_through(run, step, state):
    """A module that gives back what it was given, and one whose result is written over."""
    model = state.setdefault("model", nn.Sequential(nn.Linear(4, 6), nn.Identity(), nn.Dropout(0.0), nn.Linear(6, 1)).to(run.dtype))
    h = model[1](model[0](batch(step, run.dtype)))
    kept_one = h * 2
    y = model[3](model[2](h))
    y.mul_(3)
    plain_step(run, model, y.pow(2).mean() + kept_one.mean())


@case
def jacobian(run, step, state):
    model = state.setdefault("model", small(2).to(run.dtype))
    x = batch(step, run.dtype)
    rows = torch.autograd.functional.jacobian(lambda v: model(v).sum(0), x, create_graph=True)
    plain_step(run, model, rows.pow(2).mean() + model(x).pow(2).mean())


@case
def per_sample(run, step, state):
    model = state.setdefault("model", small().to(run.dtype))
    if hasattr(torch, "func"):
        parameters = {name: p.detach() for name, p in model.named_parameters()}
        torch.func.vmap(torch.func.grad(lambda p, x: torch.func.functional_call(model, p, (x,)).pow(2).sum()), (None, 0))(parameters, batch(step, run.dtype))
    plain_step(run, model, model(batch(step, run.dtype)).pow(2).mean())


def train(name, dtype=torch.float32):
    torch.manual_seed(0)
    run, state = Run(dtype), {}
    for step in range(3):
        CASES[name](run, step, state)
    return run.grads


def captured(name, level, folder):
    """The same, with a capture of all but the first step, which makes the models."""
    from msprobe.pytorch import PrecisionDebugger
    torch.manual_seed(0)
    run, state = Run(torch.float32), {}
    debugger = PrecisionDebugger(dump_path=folder, task="tensor", level=level)
    CASES[name](run, 0, state)
    models = [value for value in state.values() if isinstance(value, nn.Module)]
    for step in (1, 2):
        debugger.start(model=models if len(models) > 1 else models[0])
        CASES[name](run, step, state)
        debugger.stop()
        debugger.step()


def numpy_of(function):
    """An operator of ATen by NumPy, without a graph."""
    return lambda *tensors: torch.from_numpy(function(*[tensor.detach().numpy() for tensor in tensors]))


FAULTS = {
    "tanh": numpy_of(lambda x: (numpy.tanh(x) * 512).round() / 512),
    "tanh_backward": numpy_of(lambda g, y: g * (1 - y * y) * numpy.float32(1.01)),
    "mm": numpy_of(lambda a, b: (a @ b) * numpy.float32(1.01)),  # in gradients alone
}


def plant(fault):
    library = torch.library.Library("aten", "IMPL")
    library.impl(fault, FAULTS[fault], "CPU")
    return library


def largest_difference(name):
    """Between float32 and float64, relative to the largest gradient."""
    found, exact = train(name), train(name, torch.float64)
    return max((a - b).abs().max().item() for a, b in zip(found, exact)) / max(b.abs().max().item() for b in exact)
