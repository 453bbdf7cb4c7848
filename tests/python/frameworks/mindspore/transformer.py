"""Trains a small transformer as MindSpore's users write one: RMSNorm, residuals, a CellList, mint and ops, dropout,
a block that is recomputed, bfloat16, a compiled function, Adam.   usage: transformer.py [recompute|bfloat16|jit]"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from mindspore_training import Run  # noqa: E402

import mindspore as ms  # noqa: E402
from mindspore import Parameter, Tensor, mint, nn, ops  # noqa: E402


class RmsNorm(nn.Cell):
    def __init__(self, size):
        super().__init__()
        self.weight = Parameter(Tensor(np.ones(size, np.float32)), name="weight")

    def construct(self, x):
        return x * ops.rsqrt((x * x).mean(-1, keep_dims=True) + 1e-5) * self.weight


class Attention(nn.Cell):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v = (nn.Dense(size, size) for _ in range(3))
        self.out = nn.Dense(size, size)
        self.batch_matmul = ops.BatchMatMul()

    def split(self, x):
        batch, length, size = x.shape
        return x.reshape(batch, length, self.heads, size // self.heads).transpose(0, 2, 1, 3)

    def construct(self, x):
        q, k, v = (self.split(dense(x)) for dense in (self.q, self.k, self.v))
        scores = mint.nn.functional.softmax(mint.matmul(q, k.transpose(0, 1, 3, 2)) / 2.0, dim=-1)
        return self.out(self.batch_matmul(scores, v).transpose(0, 2, 1, 3).reshape(x.shape))


class Block(nn.Cell):
    def __init__(self, size):
        super().__init__()
        self.norm_1, self.norm_2 = RmsNorm(size), RmsNorm(size)
        self.attention = Attention(size, 2)
        self.mlp = nn.SequentialCell(nn.Dense(size, 2 * size), nn.GELU(), nn.Dense(2 * size, size))
        self.dropout = nn.Dropout(p=0.1)

    def construct(self, x):
        x = x + self.attention(self.norm_1(x))
        return x + self.dropout(self.mlp(self.norm_2(x)))


class Narrow(nn.Cell):
    """Computes in bfloat16, with operators that MindSpore has for it on a CPU: none that sums."""

    def __init__(self):
        super().__init__()
        self.store = nn.Identity()

    def construct(self, x):
        x = self.store(x.astype(ms.bfloat16))
        return x * x + x


class Model(nn.Cell):
    def __init__(self, narrow):
        super().__init__()
        self.narrow = Narrow() if narrow else None
        self.embedding = nn.Embedding(13, 8)
        self.blocks = nn.CellList([Block(8) for _ in range(3)])
        self.norm = nn.LayerNorm((8,))
        self.head = nn.Dense(8, 13)

    def construct(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
            if self.narrow is not None:
                x = self.narrow(x).astype(ms.float32)
        return self.head(self.norm(x))


def main(variant=""):
    run = Run()
    model = Model(narrow=variant == "bfloat16")
    model.set_train()
    if variant == "recompute":
        model.blocks[1].recompute()
    optimizer = nn.Adam(model.trainable_params(), 1e-2)
    run.watch(model, optimizer)
    cross_entropy = nn.CrossEntropyLoss()

    def loss_of(logits, targets):
        return cross_entropy(logits.reshape(-1, 13), targets.reshape(-1))

    if variant == "jit":
        loss_of = ms.jit(loss_of)

    def forward(tokens, targets):
        return loss_of(model(tokens), targets)

    step = ms.value_and_grad(forward, None, optimizer.parameters)
    generator = np.random.RandomState(5)
    for _ in run.steps():
        tokens = generator.randint(0, 13, (2, 6)).astype(np.int32)
        loss, gradients = step(Tensor(tokens[:, :-1]), Tensor(tokens[:, 1:]))
        optimizer(gradients)
        run.end_step(loss, gradients)
    run.close()


main(*sys.argv[1:])
