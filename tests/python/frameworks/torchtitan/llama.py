"""Llama 3 of torchtitan in two processes: its model, sharding, loss and optimizer.

usage: llama.py tensor|fsdp
"""
import sys
import types

import triton_by_name  # noqa: F401  before anything of torchtitan
import torch
from torch.distributed.fsdp import FSDPModule
from torchtitan.components.loss import CrossEntropyLoss
from torchtitan.components.optimizer.optimizer import default_adamw
from torchtitan.config import CompileConfig, ParallelismConfig, TrainingConfig
from torchtitan.distributed import ParallelDims, parallel_dims, utils
from torchtitan.models import llama3
from torchtitan.models.common.attention import ScaledDotProductAttention

from torch_training import Run

DEGREES = {"tensor": dict(tensor_parallel_degree=2, data_parallel_shard_degree=1), "fsdp": dict(data_parallel_shard_degree=2)}
LENGTH, VOCABULARY, WIDTH = 8, 32, 16


def description():
    """torchtitan's own model for debugging, narrower and with two layers."""
    model = llama3.Llama3Model.Config(
        dim=WIDTH, vocab_size=VOCABULARY,
        tok_embeddings=llama3.Embedding.Config(num_embeddings=VOCABULARY, embedding_dim=WIDTH, param_init=llama3._EMBEDDING_INIT),
        norm=llama3.RMSNorm.Config(normalized_shape=WIDTH, param_init=llama3._NORM_INIT),
        lm_head=llama3.Linear.Config(in_features=WIDTH, out_features=VOCABULARY, param_init=llama3._output_linear_init(WIDTH)),
        layers=llama3._build_llama3_layers(
            n_layers=2, dim=WIDTH, n_heads=2, hidden_dim=2 * WIDTH, attn_backend="flex",
            rope=llama3.ComplexRoPE.Config(dim=WIDTH // 2, max_seq_len=LENGTH, theta=10000.0, scaling="none")))
    for layer in model.layers:
        layer.attention.inner_attention = ScaledDotProductAttention.Config()   # the others have no gradients on a CPU
    return model


def shared_out(way):
    """The model, this rank's part of it."""
    parallel_dims.device_type = "cpu"
    parallelism = ParallelismConfig(spmd_backend="partial_dtensor", **DEGREES[way])
    utils.set_spmd_backend("partial_dtensor")
    sizes = ParallelDims.from_config(parallelism, torch.distributed.get_world_size())
    sizes.build_mesh()
    wanted = description()
    wanted.update_from_config(config=types.SimpleNamespace(parallelism=parallelism))
    with torch.device("meta"):
        model = wanted.build()
    model = llama3.parallelize_llama(
        model, parallel_dims=sizes, training=TrainingConfig(seq_len=LENGTH, local_batch_size=2), parallelism=parallelism,
        compile_config=CompileConfig(), ac_config=None, dump_folder="")
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.set_force_sum_reduction_for_comms(True)   # gloo has no other
    model.to_empty(device="cpu")
    with torch.no_grad():
        model.init_weights(buffer_device=None)
    return model


def main(way):
    run = Run()
    torch.distributed.init_process_group("gloo")
    model = shared_out(way)
    optimizers = default_adamw(lr=1e-2).build(model_parts=[model])
    loss_of = CrossEntropyLoss.Config().build()
    run.watch(model, optimizers.optimizers[0])
    generator = torch.Generator().manual_seed(5 + (run.rank if way == "fsdp" else 0))
    for _ in run.steps():
        ids = torch.randint(0, VOCABULARY, (2, LENGTH + 1), generator=generator)
        loss, _ = loss_of(model(ids[:, :-1], torch.arange(LENGTH).expand(2, -1)), ids[:, 1:])
        loss.backward()
        optimizers.step()
        run.end_step(loss)
        optimizers.zero_grad()
    run.close()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
