"""Trains a small GPT, on one card or with its layers cut over several: the program of docs/how-to/tensor-parallel.md.

    python3 train.py --ranks 1        the whole model in one process
    python3 train.py --ranks 8        tensor parallel over eight, as Megatron cuts it (gloo, on CPU)

--forget-reduction leaves out one all-reduce: the output of the last projection stays this rank's summand. Weights and data are the
same for any number of ranks. Dumps go to one_card or eight_ranks; nothing but `debugger` knows of msprobe.
"""
import argparse
import math
import os

import torch
import torch.distributed as dist
import torch.multiprocessing
import torch.nn as nn
import torch.nn.functional as F

WORDS, WIDTH, HEADS, LENGTH, BATCH = 32, 64, 8, 16, 4


class CopyToRanks(torch.autograd.Function):
    """The same value for all ranks; their gradients are summed."""

    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.clone()
        dist.all_reduce(gradient)
        return gradient


class SumOverRanks(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x = x.clone()
        dist.all_reduce(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


def part_of(whole, dim, blocks=1):
    """This rank's part of a parameter, with the marks of Megatron. `blocks`: of each fused part its share."""
    ranks, rank = ranks_of(), rank_of()
    parts = [block.chunk(ranks, dim)[rank] for block in whole.chunk(blocks, dim)]
    parameter = nn.Parameter(torch.cat(parts, dim).detach().clone())
    if ranks > 1:
        parameter.tensor_model_parallel, parameter.partition_dim, parameter.partition_stride = True, dim, blocks
    return parameter


def ranks_of():
    return dist.get_world_size() if dist.is_initialized() else 1


def rank_of():
    return dist.get_rank() if dist.is_initialized() else 0


class ColumnParallelLinear(nn.Module):
    """Each rank has some rows of the weight, and that part of the output."""

    def __init__(self, inputs, outputs, blocks=1):
        super().__init__()
        self.weight = part_of(nn.Linear(inputs, outputs).weight, 0, blocks)
        self.tp_group = dist.group.WORLD if ranks_of() > 1 else None

    def forward(self, x):
        return F.linear(CopyToRanks.apply(x) if ranks_of() > 1 else x, self.weight)


class RowParallelLinear(nn.Module):
    """Each rank has some columns of the weight, and a summand of the output."""

    def __init__(self, inputs, outputs, reduces=True):
        super().__init__()
        self.weight = part_of(nn.Linear(inputs, outputs).weight, 1)
        self.tp_group = dist.group.WORLD if ranks_of() > 1 else None
        self.reduces = reduces

    def forward(self, x):
        x = F.linear(x, self.weight)
        return SumOverRanks.apply(x) if ranks_of() > 1 and self.reduces else x


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = ColumnParallelLinear(WIDTH, 3 * WIDTH, blocks=3)
        self.proj = RowParallelLinear(WIDTH, WIDTH)

    def forward(self, x):
        heads = HEADS // ranks_of()
        q, k, v = (part.reshape(*x.shape[:2], heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(q.shape[-1])
        weights = F.softmax(scores.masked_fill(torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1), float("-inf")), dim=-1)
        return self.proj(torch.matmul(weights, v).transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self, reduces):
        super().__init__()
        self.ln1, self.attn, self.ln2 = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH)
        self.up, self.down = ColumnParallelLinear(WIDTH, 4 * WIDTH), RowParallelLinear(4 * WIDTH, WIDTH, reduces)

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.down(F.gelu(self.up(self.ln2(x))))


class SmallGPT(nn.Module):
    def __init__(self, forgets):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.block = Block(not forgets)
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, words):
        return self.head(self.norm(self.block(self.words(words))))


def train(rank, given):
    from msprobe.pytorch import PrecisionDebugger
    torch.set_num_threads(1)
    if given.ranks > 1:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(given.port), RANK=str(rank), WORLD_SIZE=str(given.ranks))
        dist.init_process_group("gloo", rank=rank, world_size=given.ranks)
    torch.manual_seed(7)
    model = SmallGPT(given.forget_reduction)
    words = torch.randint(WORDS, (BATCH, LENGTH + 1))
    folder = given.output or ("one_card" if given.ranks == 1 else "eight_ranks")
    debugger = PrecisionDebugger(os.path.join(os.path.dirname(os.path.abspath(__file__)), "config.json"), dump_path=folder)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger.start(model=model)
    loss = F.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())
    debugger.stop()  # the forward pass alone: the example stays small
    loss.backward()
    optimizer.step()
    debugger.step()
    if rank == 0:
        print("loss %.4f" % loss.item())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--forget-reduction", action="store_true")
    parser.add_argument("--output")
    parser.add_argument("--port", type=int, default=29517)
    given = parser.parse_args()
    if given.ranks == 1:
        train(0, given)
    else:
        torch.multiprocessing.spawn(train, (given,), given.ranks)


if __name__ == "__main__":
    main()
