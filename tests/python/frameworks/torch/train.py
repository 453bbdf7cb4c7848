"""Trains one of the models of harmless_models.py.   usage: train.py MODEL [VARIANT]"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "torch"))
import torch  # noqa: E402
from harmless_models import MODELS  # noqa: E402
from torch_training import Run, seeded_generator  # noqa: E402


def main(name):
    run = Run()
    model, batch, loss_of = MODELS[name]()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    run.watch(model, optimizer)
    generator = seeded_generator()
    for _ in run.steps():
        loss = loss_of(model, batch(generator))
        loss.backward()
        optimizer.step()
        run.end_step(loss)
        optimizer.zero_grad()
    run.close()


main(*sys.argv[1:])
