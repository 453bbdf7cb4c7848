"""A small GPT in two processes, shared out by PyTorch itself, and an engine that got its weights: digests of both.

usage: digests.py fsdp2|tensor_parallel|data_parallel FOLDER

FOLDER/before and FOLDER/trainer: every rank's digest of the part that it holds, before and after a step; the rest is synced_engines.write.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "torch"))
import torch  # noqa: E402
from harmless_models import Gpt, next_token_loss, tokens  # noqa: E402

import msprobe.weights  # noqa: E402
import synced_engines  # noqa: E402


def fsdp2(model):
    from torch.distributed._composable.fsdp import fully_shard
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
    return model


def tensor_parallel(model):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    for block in model.blocks:
        parallelize_module(block.mlp, init_device_mesh("cpu", (2,), mesh_dim_names=("tp",)), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    return model


def data_parallel(model):
    torch.nn.parallel.DistributedDataParallel(model)  # as it registers itself; names stay those of the model
    return model


def synced(model):
    """{name: whole tensor}; every rank gathers."""
    return {name: (tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor).detach().clone() for name, tensor in model.named_parameters()}


def main(way, folder):
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(11)
    model = {"fsdp2": fsdp2, "tensor_parallel": tensor_parallel, "data_parallel": data_parallel}[way](synced_engines.untied(Gpt()))
    before = synced(model)
    msprobe.weights.digest(model, os.path.join(folder, "before"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, foreach=False)
    next_token_loss(model, tokens(torch.Generator().manual_seed(5))).backward()
    optimizer.step()
    msprobe.weights.digest(model, os.path.join(folder, "trainer"))
    held = synced(model)
    torch.distributed.barrier()
    if torch.distributed.get_rank() == 0:
        synced_engines.write(folder, synced_engines.untied(Gpt()), before, held)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
