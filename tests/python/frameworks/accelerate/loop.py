"""A training loop of one's own under accelerate's Accelerator, with accumulated gradients and clipping.

usage: loop.py [bf16]
"""
import sys

import accelerate
import torch

from torch_training import Run


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(24, 16)
        self.layers = torch.nn.ModuleList([torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True) for _ in range(2)])
        self.head = torch.nn.Linear(16, 24)

    def forward(self, ids):
        hidden = self.embedding(ids)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden)


def main():
    run = Run()
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2,
                                         mixed_precision="bf16" if "bf16" in sys.argv else "no")
    accelerate.utils.set_seed(11)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    generator = torch.Generator().manual_seed(5)
    batches = torch.utils.data.DataLoader(torch.randint(0, 24, (16 * run.count, 7), generator=generator), batch_size=2)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer)
    model, optimizer, batches, scheduler = accelerator.prepare(model, optimizer, batches, scheduler)
    run.watch(accelerator.unwrap_model(model), optimizer.optimizer)
    given = iter(batches)
    for _ in run.steps():
        losses = []
        for _ in range(2):
            with accelerator.accumulate(model):
                ids = next(given)
                logits = model(ids[:, :-1])
                losses.append(torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten()))
                accelerator.backward(losses[-1])
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                if accelerator.sync_gradients:
                    run.end_step(losses)
                optimizer.zero_grad()
    run.close()
    accelerator.end_training()


main()
