"""A small GPT under DeepSpeed's ZeRO 3 in two processes, and an engine that got its weights: digests of both.

usage: digests.py FOLDER

FOLDER/before and FOLDER/trainer: every rank's digest of the part that it holds, before and after a step; the rest is synced_engines.write.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "torch"))
import deepspeed  # noqa: E402
import torch  # noqa: E402
from harmless_models import Gpt, next_token_loss, tokens  # noqa: E402

import msprobe.weights  # noqa: E402
import synced_engines  # noqa: E402
from zero import BUCKETS, remove_shared_memory  # noqa: E402


def synced(module):
    """{name: whole tensor}, as a sync of weights gathers them."""
    named = list(module.named_parameters())
    with deepspeed.zero.GatheredParameters([parameter for _, parameter in named]):
        return {name: parameter.detach().clone() for name, parameter in named}


def main(folder):
    deepspeed.init_distributed("gloo")
    torch.manual_seed(11)
    model = synced_engines.untied(Gpt())
    engine, _, _, _ = deepspeed.initialize(
        model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-2),
        config={"train_micro_batch_size_per_gpu": 2, "zero_optimization": dict(BUCKETS, stage=3), "zero_allow_untested_optimizer": True})
    rank = torch.distributed.get_rank()
    before = synced(engine.module)
    msprobe.weights.digest(engine.module, os.path.join(folder, "before"))
    loss = next_token_loss(engine, tokens(torch.Generator().manual_seed(5 + rank)))
    engine.backward(loss)
    engine.step()
    msprobe.weights.digest(engine.module, os.path.join(folder, "trainer"))
    held = synced(engine.module)
    if rank == 0:
        synced_engines.write(folder, synced_engines.untied(Gpt()), before, held)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()
    remove_shared_memory()


if __name__ == "__main__":
    main(*sys.argv[1:])
