"""A small network trained by DeepSpeed, its parameters shared out over all processes (ZeRO stage 3); contains nothing of msprobe.

usage: torchrun --nproc_per_node 2 deepspeed_train.py [--slope SLOPE]
--slope: of one activation, as another kernel library might have it.
"""
import argparse

import deepspeed
import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--slope", type=float, default=0.01)
options = parser.parse_args()
torch.set_num_threads(1)
deepspeed.init_distributed("gloo", verbose=False)
rank = torch.distributed.get_rank()
torch.manual_seed(1)
model = nn.Sequential(nn.Linear(8, 16), nn.LeakyReLU(options.slope), nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 4))
engine, _, _, _ = deepspeed.initialize(
    model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-2),
    config={"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 3, "reduce_bucket_size": 1000},
            "zero_allow_untested_optimizer": True})
generator = torch.Generator().manual_seed(5 + rank)
for step in range(2):
    x, y = torch.randn(4, 8, generator=generator), torch.randint(0, 4, (4,), generator=generator)
    loss = nn.functional.cross_entropy(engine(x), y)
    engine.backward(loss)
    engine.step()
    if rank == 0:
        print("step %d: loss %.4f" % (step + 1, loss.item()), flush=True)
torch.distributed.destroy_process_group()
