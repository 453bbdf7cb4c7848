"""Trains a tiny language model on two ranks until its loss becomes NaN: the program of docs/how-to/loss-went-nan.md.

It knows nothing of msprobe. Each rank draws sentences of its own and learns the word after each word; gradients are averaged over
the ranks. Short sentences are filled up with PAD, which the loss leaves out.
"""
import argparse
import os
import tempfile

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

WORDS, WIDTH, LENGTH, PAD = 32, 16, 8, 0


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(3))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        x = self.words(words)
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


def mean_loss(logits, targets):
    losses = F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    kept = (targets.flatten() != PAD).float()
    return (losses * kept).sum() / kept.sum()


def sentences(step, rank):
    """One batch. Real data has such a sentence now and then, too: on rank 1 the one of step 6 is empty."""
    words = torch.randint(1, WORDS, (1, LENGTH + 1))
    words[0, 5 + step % 4:] = PAD
    if (step, rank) == (6, 1):
        words[0, 1:] = PAD
    return words


def train(rank, ranks, meeting_place, steps):
    dist.init_process_group("gloo", init_method="file://" + meeting_place, rank=rank, world_size=ranks)
    torch.manual_seed(1)
    model = Model()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    torch.manual_seed(100 + rank)
    for step in range(steps):
        words = sentences(step, rank)
        loss = mean_loss(model(words[:, :-1]), words[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= ranks
        optimizer.step()
        if rank == 0:
            print("step %d: loss %.4f" % (step, loss.item()))
    dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--ranks", type=int, default=2)
    given = parser.parse_args()
    meeting_place = os.path.join(tempfile.mkdtemp(), "ranks")
    torch.multiprocessing.spawn(train, (given.ranks, meeting_place, given.steps), nprocs=given.ranks)


if __name__ == "__main__":
    main()
