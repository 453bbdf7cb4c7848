"""A training that something is done to as soon as it is observed, as by a capture with a defect.

usage: misbehave.py DEFECT
"""
import os
import sys
import threading

import torch
import torch.nn as nn
from torch_training import Run, seeded_generator

KEPT = []


def main(defect):
    run = Run()
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters())
    run.watch(model, optimizer)
    generator = seeded_generator()
    for number in run.steps():
        x = torch.randn(3, 4, generator=generator)
        if run.is_observed:
            spoil(defect, model, number)
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        run.end_step(loss)
        optimizer.zero_grad()
    run.close()


def spoil(defect, model, number):
    if defect == "weight" and number == 1:
        with torch.no_grad():
            model[2].bias.copy_(torch.nextafter(model[2].bias, model[2].bias + 1))
    elif defect == "random":
        torch.rand(1)
    elif defect == "memory":
        KEPT.append(bytearray(os.urandom(1 << 16)))
    elif defect == "descriptor":
        KEPT.append(open(os.devnull, encoding="ascii"))
    elif defect == "thread":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    elif defect == "hook" and number == 0:
        model[0].register_forward_hook(lambda *_: None)
    elif defect == "function" and number == 0:
        original = nn.functional.linear
        nn.functional.linear = lambda *args: original(*args)


main(*sys.argv[1:])
