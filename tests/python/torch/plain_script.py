"""Trains a tiny model and knows nothing of any capture.

usage: plain_script.py [--perturb MODULE] [--steps N] [--eval] [--processes N] [--fail] [--hang-at STEP]
"""
import argparse
import os
import subprocess
import sys
import time

import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from models import TinyGPT  # noqa: E402

parser = argparse.ArgumentParser()
parser.add_argument("--perturb", default="")
parser.add_argument("--steps", type=int, default=1)
parser.add_argument("--eval", action="store_true", help="no optimizer, no gradients")
parser.add_argument("--processes", type=int, default=1, help="started as torchrun does")
parser.add_argument("--fail", action="store_true", help="raise behind the last step")
parser.add_argument("--hang-at", type=int, default=-1, help="wait to be killed inside this step")
given = parser.parse_args()

if given.processes > 1 and "RANK" not in os.environ:
    workers = [subprocess.Popen([sys.executable] + sys.argv,
                                env=dict(os.environ, RANK=str(rank),
                                         WORLD_SIZE=str(given.processes)))
               for rank in range(given.processes)]
    sys.exit(max(worker.wait() for worker in workers))

torch.set_num_threads(1)
torch.manual_seed(1)
model = TinyGPT()
if given.perturb:
    with torch.no_grad():
        dict(model.named_modules())[given.perturb].weight.mul_(1 + 1e-3)
if given.processes > 1:
    store = "file://" + os.path.abspath("rendezvous")
    torch.distributed.init_process_group("gloo", init_method=store, rank=int(os.environ["RANK"]),
                                         world_size=given.processes)
    model = torch.nn.parallel.DistributedDataParallel(model)
generator = torch.Generator().manual_seed(7)


def batch():
    return torch.randint(0, 32, (2, 8), generator=generator)


if given.eval:
    model.eval()
    with torch.no_grad():
        for _ in range(given.steps):
            model(batch())
    sys.exit(0)

optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(given.steps):
    loss = F.cross_entropy(model(batch()).view(-1, 32), batch().view(-1))
    optimizer.zero_grad()
    loss.backward()
    if step == given.hang_at:
        open("hanging", "w").close()
        time.sleep(600)
    optimizer.step()
    print("step %d loss %.9g" % (step, loss))
if given.processes > 1:
    torch.distributed.destroy_process_group()
if given.fail:
    raise RuntimeError("a script that fails")
