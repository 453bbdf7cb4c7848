"""How much memory of the device a training takes at its peak, with large tensors.   usage: peak.py"""
import torch
from torch_training import Run


def main():
    run = Run()
    model = torch.nn.Sequential(torch.nn.Identity(), torch.nn.Identity())
    run.watch(model)
    for _ in run.steps():
        x = torch.ones(2 ** 29, dtype=torch.bfloat16)   # 1 GiB
        torch.cuda.reset_peak_memory_stats()
        y = model(x)
        torch.cuda.synchronize()
        run.end_step(torch.cuda.max_memory_allocated() - torch.cuda.memory_allocated())
        del x, y
    print("peak", torch.cuda.max_memory_allocated())
    run.close()


main()
