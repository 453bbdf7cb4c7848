"""The same for several gloo processes: each case is run by every rank as function(rank, world, watch)."""
import torch
import torch.distributed as dist
from torch import nn

from cases import Net, loss_of

PLANTED = []   # (name, laws that may tell it, part of the parameter's name or "", first step, ranks, function)
BENIGN = []    # (name, ranks, function)


def planted(laws, name="", step=0, world=2):
    def add(function):
        PLANTED.append((function.__name__, laws, name, step, world, function))
        return function
    return add


def benign(world=2):
    def add(function):
        BENIGN.append((function.__name__, world, function))
        return function
    return add


def reduce_all(model, world, skip=(), mean=True):
    for name, parameter in model.named_parameters():
        if name not in skip and parameter.grad is not None:
            dist.all_reduce(parameter.grad)
            if mean:
                parameter.grad.div_(world)


def by_hand(rank, world, watch, model=None, reduce=None, after=None, before=None, steps=4, accumulate=1, make=None, between=None):
    """Data parallelism written out."""
    torch.manual_seed(7)
    model = model or Net()
    optimizer = (make or (lambda parameters: torch.optim.AdamW(parameters, lr=1e-2)))(model.parameters())
    watch(model, optimizer)
    torch.manual_seed(100 + rank)
    for step in range(steps):
        optimizer.zero_grad()
        for turn in range(accumulate):
            loss_of(model).backward()
            if between:
                between(model, step, turn)
        (reduce or (lambda model, step: reduce_all(model, world)))(model, step)
        if before:
            before(model, step, optimizer)
        optimizer.step()
        if after:
            after(model, step, optimizer)


def by_wrapper(rank, world, watch, after=None, before=None, steps=4, accumulate=1, clip=None, model=None):
    torch.manual_seed(7)
    model = nn.parallel.DistributedDataParallel(model or Net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    watch(model, optimizer)
    torch.manual_seed(100 + rank)
    for step in range(steps):
        optimizer.zero_grad()
        for _ in range(accumulate):
            loss_of(model).backward()
        if clip:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        if before:
            before(model.module, step, optimizer)
        optimizer.step()
        if after:
            after(model.module, step, optimizer)


# ---- replica ----

@planted(("replica",), "two.weight", 2)
def a_copy_drifts(rank, world, watch):
    def after(model, step, optimizer):
        if rank == 1 and step == 1:
            model.two.weight.data[0, 0] += 1e-3
    by_wrapper(rank, world, watch, after=after)


@planted(("replica",), "head.weight", 1)
def a_gradient_is_changed_on_one_rank(rank, world, watch):
    def before(model, step, optimizer):
        if rank == 0 and step == 1:
            model.head.weight.grad[3].mul_(1.5)
    by_wrapper(rank, world, watch, before=before)


@planted(("replica",), "embed.weight", 2)
def moments_of_one_rank_are_set_back(rank, world, watch):
    def after(model, step, optimizer):
        if rank == 1 and step == 1:
            for state in optimizer.state.values():
                state["exp_avg"] = torch.zeros_like(state["exp_avg"])
    by_wrapper(rank, world, watch, after=after)


@planted(("replica", "reduction"), "embed.weight", 0)
def accumulators_that_each_rank_keeps_alone(rank, world, watch):
    by_hand(rank, world, watch, reduce=lambda model, step: reduce_all(model, world, skip=("embed.weight",)))


@planted(("replica",), "norm.weight", 0, 4)
def a_norm_is_not_reduced_among_shards(rank, world, watch):
    class Shards(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(50 + rank)
            self.up, self.down = nn.Linear(8, 4, bias=False), nn.Linear(4, 8, bias=False)
            self.first_norm, self.norm = nn.LayerNorm(8), nn.LayerNorm(8)

        def forward(self, rows):
            part = self.down(torch.tanh(self.up(self.first_norm(rows))))
            whole = part.detach().clone()
            dist.all_reduce(whole)
            return self.norm(part + (whole - part).detach())
    model = Shards()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    watch(model, optimizer)
    for _ in range(3):
        optimizer.zero_grad()
        torch.manual_seed(200 + rank)
        model(torch.randn(5, 8)).square().mean().backward()
        for parameter in model.first_norm.parameters():
            dist.all_reduce(parameter.grad)
        optimizer.step()


@planted(("replica",), "router.weight", 2)
def a_router_differs(rank, world, watch):
    def after(model, step, optimizer):
        if rank == 1 and step == 1:
            model.router.weight.data.mul_(1.01)
    torch.manual_seed(7)
    by_hand(rank, world, watch, model=_Routed(), after=after)


class _Routed(Net):
    def __init__(self):
        super().__init__()
        self.router = nn.Linear(12, 20)

    def forward(self, batch):
        return super().forward(batch) + self.router(self.embed(batch))


# ---- reduction ----

@planted(("reduction",), "one.bias", 0)
def one_gradient_is_added_and_not_averaged(rank, world, watch):
    def reduce(model, step):
        reduce_all(model, world)
        model.one.bias.grad.mul_(world)
    by_hand(rank, world, watch, reduce=reduce)


@planted(("reduction",), "head.weight", 1)
def one_gradient_is_reduced_twice(rank, world, watch):
    def reduce(model, step):
        reduce_all(model, world)
        if step >= 1:
            dist.all_reduce(model.head.weight.grad)
    by_hand(rank, world, watch, reduce=reduce)


@planted(("reduction", "replica"), "norm.bias", 0)
def a_bias_is_forgotten_in_the_reduction(rank, world, watch):
    by_hand(rank, world, watch, reduce=lambda model, step: reduce_all(model, world, skip=("norm.bias",)))


@planted(("gradient_scale", "reduction"), "", 0)
def the_running_sum_is_divided_by_the_ranks_each_time(rank, world, watch):
    def between(model, step, turn):
        for parameter in model.parameters():
            parameter.grad.div_(world)
    by_hand(rank, world, watch, accumulate=3, between=between, reduce=lambda model, step: reduce_all(model, world, mean=False))


@planted(("reduction",), "two.weight", 1)
def one_mean_gives_a_sum_in_one_step(rank, world, watch):
    def reduce(model, step):
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad.div_(world)
        if step == 1:
            model.two.weight.grad.mul_(world)
    by_hand(rank, world, watch, reduce=reduce)


# ---- clip_norm ----

class _Sharded(nn.Module):
    """Heads are shards, the norm is a copy."""

    def __init__(self, rank):
        super().__init__()
        torch.manual_seed(60 + rank)
        self.heads = nn.Linear(8, 8, bias=False)
        self.offsets = nn.Parameter(torch.randn(8))
        self.norm = nn.LayerNorm(8)

    def forward(self, rows):
        part = self.heads(self.norm(rows)) + self.offsets
        whole = part.detach().clone()
        dist.all_reduce(whole)
        return part + (whole - part).detach()


def _clip_by_hand(rank, watch, counts):
    model = _Sharded(rank)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch(model, optimizer)
    for step in range(3):
        optimizer.zero_grad()
        torch.manual_seed(300 + step)
        model(torch.randn(6, 8)).square().mean().backward()
        for parameter in model.norm.parameters():
            dist.all_reduce(parameter.grad)
        square = sum((parameter.grad.double() ** 2).sum() for name, parameter in model.named_parameters() if counts(name))
        square = square.float().reshape(1)
        dist.all_reduce(square)
        factor = min(1.0, 0.1 / (float(square) ** 0.5 + 1e-6))
        for parameter in model.parameters():
            parameter.grad.mul_(factor)
        optimizer.step()


@planted(("clip_norm",), "", 0)
def offsets_of_heads_count_on_one_rank_alone(rank, world, watch):
    _clip_by_hand(rank, watch, lambda name: rank == 0 or name.startswith("heads"))


@planted(("clip_norm",), "", 0)
def copies_count_on_every_rank(rank, world, watch):
    _clip_by_hand(rank, watch, lambda name: True)


@planted(("clip_norm",), "", 0)
def each_rank_clips_by_its_own_norm(rank, world, watch):
    torch.manual_seed(7)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watch(model, optimizer)
    torch.manual_seed(100 + rank)
    for _ in range(3):
        optimizer.zero_grad()
        loss_of(model).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        reduce_all(model, world)
        optimizer.step()


# ---- nothing wrong ----

@benign()
def the_wrapper(rank, world, watch):
    by_wrapper(rank, world, watch, clip=0.5)


@benign()
def the_wrapper_with_micro_batches(rank, world, watch):
    by_wrapper(rank, world, watch, accumulate=3)


@benign()
def reduced_by_hand(rank, world, watch):
    by_hand(rank, world, watch, accumulate=2)


@benign()
def added_by_hand(rank, world, watch):
    by_hand(rank, world, watch, reduce=lambda model, step: reduce_all(model, world, mean=False))


@benign(4)
def shards_and_copies(rank, world, watch):
    _clip_by_hand(rank, watch, lambda name: rank == 0 or not name.startswith("norm"))


@benign()
def trainings_that_know_nothing_of_each_other(rank, world, watch):
    by_hand(rank, world, watch, reduce=lambda model, step: None)


@benign()
def experts_of_their_own(rank, world, watch):
    class Experts(Net):
        def __init__(self):
            super().__init__()
            self.experts = nn.ModuleList([nn.Linear(12, 20)])

        def forward(self, batch):
            return super().forward(batch) + self.experts[0](self.embed(batch))
    torch.manual_seed(7)
    by_hand(rank, world, watch, model=Experts(),
            reduce=lambda model, step: reduce_all(model, world, skip=("experts.0.weight", "experts.0.bias")))


@benign()
def losses_are_averaged_for_the_log(rank, world, watch):
    def before(model, step, optimizer):
        loss = torch.rand(1)
        dist.all_reduce(loss)
        square = torch.tensor([float(sum((parameter.grad ** 2).sum() for parameter in model.parameters()))])
        dist.all_reduce(square)
    by_hand(rank, world, watch, before=before)


@benign()
def shards_of_fsdp2(rank, world, watch):
    if torch.__version__ < "2.6":
        return
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8), nn.Linear(8, 4))
    for part in (model[0], model[2], model[3]):
        fully_shard(part)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    watch(model, optimizer)
    torch.manual_seed(100 + rank)
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(6, 8)).square().mean().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        optimizer.step()


@benign()
def shards_of_fsdp(rank, world, watch):
    if torch.__version__ < "2":  # without an accelerator it asks for CUDA
        return
    from torch.distributed.fsdp import FullyShardedDataParallel

    torch.manual_seed(7)
    model = FullyShardedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8)), use_orig_params=rank >= 0,
                                     device_id=torch.device("cpu"))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    watch(model, optimizer)
    torch.manual_seed(100 + rank)
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(6, 8)).square().mean().backward()
        model.clip_grad_norm_(0.01)
        optimizer.step()
