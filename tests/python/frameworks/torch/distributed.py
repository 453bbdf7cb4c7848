"""Trains a small model in two processes, shared out in one of PyTorch's ways; on a GPU in one.   usage: distributed.py WAY"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "torch"))
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.nn as nn  # noqa: E402
from harmless_models import Gpt, next_token_loss, tokens  # noqa: E402
from torch_training import DEVICE, Run, seeded_generator  # noqa: E402

WAYS = {}


def way(function):
    WAYS[function.__name__] = function
    return function


def train(run, model, trained=None, optimizer=None, same_data=False):
    """model: what is watched. trained: what is called. same_data: all ranks see one batch."""
    trained = model if trained is None else trained
    optimizer = optimizer or torch.optim.AdamW(trained.parameters(), lr=1e-2)
    run.watch(model, optimizer)
    generator = seeded_generator(5 + (0 if same_data else run.rank))
    for _ in run.steps():
        loss = next_token_loss(trained, tokens(generator))
        loss.backward()
        optimizer.step()
        run.end_step(loss)
        optimizer.zero_grad()
    run.close()


def make_gpt():
    torch.manual_seed(11)
    return Gpt()


@way
def data_parallel(run):
    """Gradients are views of the buckets in which they are exchanged."""
    model = make_gpt()
    train(run, model, nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True))


@way
def data_parallel_static_graph(run):
    model = make_gpt()
    train(run, model, nn.parallel.DistributedDataParallel(model, static_graph=True, bucket_cap_mb=0.01))


@way
def zero_redundancy(run):
    """The optimizer's state is shared out over the ranks."""
    from torch.distributed.optim import ZeroRedundancyOptimizer
    model = make_gpt()
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, lr=1e-2)
    optimizer.state_dict = lambda: [inner.state_dict() for inner in [optimizer.optim]]
    train(run, model, nn.parallel.DistributedDataParallel(model), optimizer)


@way
def fsdp1(run, original="original"):
    """original: parameters keep their names and shapes; otherwise each unit has one flat parameter."""
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy
    from harmless_models import GptBlock
    model = make_gpt()
    model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())   # tied weights may not be cut apart
    model = FullyShardedDataParallel(model, auto_wrap_policy=ModuleWrapPolicy({GptBlock}), device_id=torch.device(DEVICE),
                                     use_orig_params=original == "original")
    train(run, model)


@way
def fsdp2(run):
    from torch.distributed.fsdp import fully_shard
    model = make_gpt()
    model.lm_head.weight = nn.Parameter(model.lm_head.weight.detach().clone())
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    train(run, model)


@way
def tensor_parallel(run):
    """DTensor: weights of the feed-forward layers are cut, one by columns and one by rows."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    model = make_gpt()
    mesh = init_device_mesh(DEVICE, (dist.get_world_size(),))
    for block in model.blocks:
        parallelize_module(block, mesh, {"mlp.0": ColwiseParallel(), "mlp.2": RowwiseParallel()})
    train(run, model, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False), same_data=True)


@way
def pipeline(run, schedule):
    """Two stages, four microbatches."""
    from torch.distributed import pipelining
    width = 16
    torch.manual_seed(11)
    layers = [nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width)) for _ in range(4)]
    chunks = {"ScheduleGPipe": 1, "Schedule1F1B": 1, "ScheduleInterleaved1F1B": 2}[schedule]
    mine = [nn.Sequential(*layers[(run.rank + 2 * at) * 2 // chunks:(run.rank + 2 * at + 1) * 2 // chunks])
            for at in range(chunks)]
    # Shapes are given: to find them out, a stage would run its modules on memory as found.
    def shape(requires_grad):
        return torch.zeros(2, width, requires_grad=requires_grad)

    stages = [pipelining.PipelineStage(chunk, run.rank + 2 * at, 2 * chunks, torch.device(DEVICE),
                                       input_args=(shape(run.rank + 2 * at > 0),), output_args=shape(True))
              for at, chunk in enumerate(mine)]

    def loss_of(output, target):
        return (output - target).square().mean()

    kind = getattr(pipelining, schedule)
    made = kind(stages[0] if chunks == 1 else stages, n_microbatches=4, loss_fn=loss_of)
    optimizer = torch.optim.AdamW([parameter for part in mine for parameter in part.parameters()], lr=1e-2)
    run.watch(mine[0] if chunks == 1 else mine, optimizer)
    generator = seeded_generator()
    for _ in run.steps():
        x, y = (torch.randn(8, width, generator=generator) for _ in range(2))
        losses = []
        inputs = [x] if run.rank == 0 else []
        last = {"target": y, "losses": losses} if run.rank == 1 else {}
        made.step(*inputs, **last)
        optimizer.step()
        run.end_step(losses)
        optimizer.zero_grad()
    run.close()


def main(name, *arguments):
    if DEVICE == "cuda":   # NCCL has one process per device
        dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    else:
        dist.init_process_group("gloo")
    WAYS[name](Run(), *arguments)
    dist.destroy_process_group()


main(*sys.argv[1:])
