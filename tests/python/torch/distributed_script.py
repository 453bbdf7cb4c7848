"""Trains on two processes with collectives of every kind, under a capture configuration.

usage: distributed_script.py --config FILE [--perturb MODULE]      on the second process only
"""
import argparse
import os
import socket
import sys

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from models import TinyGPT  # noqa: E402


def work(rank, config, perturb, port):
    from msprobe.pytorch import PrecisionDebugger, seed_all
    torch.set_num_threads(1)
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = str(port)
    os.environ["USE_LIBUV"] = "0"  # not every build has it
    dist.init_process_group("gloo", rank=rank, world_size=2)
    seed_all(seed=1234)
    debugger = PrecisionDebugger(config_path=config)
    model = TinyGPT()
    if perturb and rank == 1:
        with torch.no_grad():
            dict(model.named_modules())[perturb].weight.mul_(1 + 1e-3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(7 + rank)
    x = torch.randint(0, 32, (2, 8), generator=generator)
    y = torch.randint(0, 32, (2, 8), generator=generator)
    debugger.start(model=model)
    loss = F.cross_entropy(model(x).view(-1, 32), y.view(-1))
    optimizer.zero_grad()
    loss.backward()
    for parameter in list(model.parameters())[:2]:
        dist.all_reduce(parameter.grad)
    dist.all_reduce(loss.detach().clone(), op=dist.ReduceOp.MAX, async_op=True).wait()
    gathered = [torch.zeros(2) for _ in range(2)]
    dist.all_gather(gathered, torch.full((2,), float(rank)))
    dist.broadcast(torch.full((3,), float(rank)), src=0)
    if rank == 0:
        dist.send(torch.ones(2), dst=1)
        handle = dist.isend(torch.full((2,), 5.0), dst=1)
    else:
        dist.recv(torch.zeros(2), src=0)
        handle = dist.irecv(torch.zeros(2), src=0)
    handle.wait()
    dist.all_reduce(torch.ones(2), group=dist.new_group([0, 1]))
    dist.barrier()
    optimizer.step()
    debugger.stop()
    debugger.step()
    dist.destroy_process_group()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", required=True)
    parser.add_argument("--perturb", default="")
    given = parser.parse_args()
    mp.spawn(work, (given.config, given.perturb, free_port()), nprocs=2)
