"""A model of timm trained on random images.

usage: classify.py MODEL
"""
import sys

import torchvision_without_kernels  # noqa: F401
import timm
import timm.loss
import timm.optim
import torch

from torch_training import Run

SIZES = {"vit_tiny_patch16_224": dict(img_size=32, depth=2), "resnet18": {}, "convnext_atto": {}}


def main():
    name = sys.argv[1]
    run = Run()
    model = timm.create_model(name, num_classes=4, drop_rate=0.1, **SIZES[name])
    optimizer = timm.optim.create_optimizer_v2(model, opt="adamw", lr=1e-3, weight_decay=0.05)
    criterion = timm.loss.LabelSmoothingCrossEntropy()
    generator = torch.Generator().manual_seed(5)
    run.watch(model, optimizer)
    for _ in run.steps():
        images = torch.randn(2, 3, 32, 32, generator=generator)
        loss = criterion(model(images), torch.randint(0, 4, (2,), generator=generator))
        loss.backward()
        optimizer.step()
        run.end_step(loss)
        optimizer.zero_grad()
    run.close()


main()
