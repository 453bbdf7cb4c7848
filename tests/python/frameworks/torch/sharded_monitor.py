"""Trains with FSDP2 in one process under a monitor; prints what its rows have to say.   usage: sharded_monitor.py CONFIG"""
import json
import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

from msprobe.pytorch import TrainerMon


def numbers(tensor):
    wide = tensor.to_local().detach().double()
    return [list(wide.shape)] + [float(number) for number in (wide.norm(), wide.min(), wide.max(), wide.mean())]


def main():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Linear(3, 2))
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    monitor = TrainerMon(sys.argv[1])
    monitor.set_monitor(model, optimizer)
    expected = {}
    for step in range(2):
        model(torch.randn(5, 4)).square().sum().backward()
        for name, parameter in model.named_parameters():
            expected["param_origin %d %s" % (step, name)] = numbers(parameter)
            expected["grad_reduced %d %s" % (step, name)] = numbers(parameter.grad)
            if step:   # the moments that the step starts from
                expected["exp_avg %d %s" % (step, name)] = numbers(optimizer.state[parameter]["exp_avg"])
        optimizer.step()
        optimizer.zero_grad()
    monitor.close()
    dist.destroy_process_group()
    print(json.dumps(expected))


main()
