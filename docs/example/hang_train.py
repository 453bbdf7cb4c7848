"""A training on four ranks that never ends: one rank waits for data that never come. PyTorch 2.9 or newer.

Started with TORCH_FR_BUFFER_SIZE=2000, every rank leaves what its Flight Recorder holds in the folder `traces` after some seconds.
"""
import os
import sys
import threading
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing

RANKS, STEPS, SECONDS = 4, 6, 5


def leave_recording(rank, folder):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "rank_%d" % rank), "wb") as file:
        file.write(torch._C._distributed_c10d._dump_fr_trace())
    os._exit(0)


def next_batch(rank, step):
    if (rank, step) == (3, 4):
        time.sleep(3600)
    return torch.full((8, 16), float(rank + step))


def train(rank, folder):
    dist.init_process_group("gloo", init_method="file://" + folder + ".store", rank=rank, world_size=RANKS)
    threading.Timer(SECONDS, leave_recording, (rank, folder)).start()
    pairs = [dist.new_group([0, 1], group_desc="tp0"), dist.new_group([2, 3], group_desc="tp1")]
    layer = torch.nn.Linear(16, 16)
    for step in range(STEPS):
        loss = layer(next_batch(rank, step)).square().mean()
        loss.backward()
        dist.all_reduce(loss, group=pairs[rank // 2])
        for parameter in layer.parameters():
            dist.all_reduce(parameter.grad)
        layer.zero_grad()


if __name__ == "__main__":
    multiprocessing.spawn(train, (os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else "traces"),), RANKS)
