"""GPT of Megatron-core on the CPU: tensor or pipeline parallel over two processes, its DistributedDataParallel, its optimizer and
its schedules.

usage: gpt.py tensor|pipeline|virtual|data [distributed_optimizer] [bf16] [save=FOLDER] [changed=PARAMETER] [shards=KIND]

save: Megatron's own distributed checkpoint after the last step, of the optimizer too if there was a step. changed: adds 1 to one
element of this parameter first. shards: how the distributed optimizer's state is cut, one of Megatron's words for it.
"""
import os
import re
import sys

import megatron_on_cpu  # noqa: F401  before anything of Megatron
import torch
from megatron.core import dist_checkpointing, parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.tensor_parallel.random import initialize_rng_tracker
from megatron.core.transformer.transformer_config import TransformerConfig

from torch_training import Run

VOCABULARY, LENGTH, BATCH, MICRO_BATCHES = 32, 8, 2, 2
SIZES = {"tensor": dict(tensor_model_parallel_size=2), "pipeline": dict(pipeline_model_parallel_size=2),
         "virtual": dict(pipeline_model_parallel_size=2, virtual_pipeline_model_parallel_size=2), "data": {}}


def chunk(config, sizes, number, ddp):
    stages = dict(pre_process=parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=number),
                  post_process=parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=number))
    model = GPTModel(config, get_gpt_layer_local_spec(), VOCABULARY, LENGTH, position_embedding_type="rope",
                     share_embeddings_and_output_weights=False, vp_stage=number, **stages)
    if config.bf16:
        model = model.bfloat16()
    return DistributedDataParallel(config, ddp, model)


def save(folder, chunks, optimizer, changed="", shards="fully_reshardable"):
    """As Megatron's training saves: tensors of all ranks together, the rest in common.pt."""
    for name, parameter in chunks[0].module.named_parameters():
        if name == changed:
            with torch.no_grad():
                parameter.view(-1)[3] += 1
    os.makedirs(folder, exist_ok=True)
    torch.distributed.barrier()
    # One chunk alone is "model", several are "model0", "model1".
    state = {"model%s" % (number if len(chunks) > 1 else ""): part.module.sharded_state_dict()
             for number, part in enumerate(chunks)}
    if optimizer is not None:
        state["optimizer"] = optimizer.sharded_state_dict(state, metadata={"distrib_optim_sharding_type": shards})
    dist_checkpointing.save(dict(state, iteration=5), folder)


class Parameters:
    """Of all chunks, under the names of the monitor: with what the optimizer gets and keeps of each, whole."""

    def __init__(self, chunks, optimizer):
        leading = re.compile(r"module\.(decoder\.|embedding\.|output_layer\.)?(layers\.)?")
        self._named = {"%d:%s" % (number, leading.sub("", name, 1)): parameter
                       for number, chunk in enumerate(chunks) for name, parameter in chunk.named_parameters()}
        self._optimizer = optimizer.chained_optimizers[0]

    def values(self):
        return self._named

    def gradients(self):
        return {name: self._whole(parameter, parameter.main_grad) for name, parameter in self._named.items()}

    def moments(self):
        return {name: self._whole(parameter, self._states(parameter)) for name, parameter in self._named.items()}

    def _states(self, parameter):
        if not self._is_shared_out:
            # In mixed precision the optimizer within steps on a copy in float32.
            return self._optimizer.optimizer.state[getattr(parameter, "main_param", parameter)]["exp_avg"]
        if self._range(parameter) is None:
            return None
        return self._optimizer._get_main_param_and_optimizer_states(parameter)["exp_avg"]

    @property
    def _is_shared_out(self):
        return hasattr(self._optimizer, "gbuf_ranges")

    def _range(self, parameter):
        """The elements of this rank; None without one."""
        if parameter not in self._optimizer.model_param_gbuf_map:
            return None
        return self._optimizer._get_model_param_range_map(parameter)["param"]

    def _whole(self, parameter, tensor):
        """The parts of all ranks together: only a rank's own part of a gradient is complete."""
        if not self._is_shared_out:
            return tensor
        made = torch.zeros(parameter.numel(), dtype=torch.float64)
        mine = self._range(parameter)
        if mine is not None:
            flat = tensor.detach().reshape(-1)
            made[mine.start:mine.end] = flat if flat.numel() == mine.size else flat[mine.start:mine.end]
        torch.distributed.all_reduce(made)
        return made


def main():
    kind, *options = sys.argv[1:]
    named = dict(option.split("=", 1) for option in options if "=" in option)
    run = Run()
    torch.distributed.init_process_group("gloo")
    sizes = SIZES[kind]
    parallel_state.initialize_model_parallel(**sizes)
    initialize_rng_tracker(inference_rng_tracker=True)  # the other one needs CUDA's generators
    bf16, sharded = "bf16" in options, "distributed_optimizer" in options
    config = TransformerConfig(
        num_layers=4, hidden_size=16, num_attention_heads=2, ffn_hidden_size=32, use_cpu_initialization=True,
        pipeline_dtype=torch.bfloat16 if bf16 else torch.float32, bf16=bf16, hidden_dropout=0.0, attention_dropout=0.0,
        gradient_accumulation_fusion=False, bias_activation_fusion=False, masked_softmax_fusion=False, bias_dropout_fusion=False,
        apply_rope_fusion=False, normalization="LayerNorm", deallocate_pipeline_outputs=False, **sizes)
    ddp = DistributedDataParallelConfig(use_distributed_optimizer=sharded, overlap_grad_reduce=False, check_for_nan_in_grad=False)
    chunks = [chunk(config, sizes, number, ddp) for number in range(sizes.get("virtual_pipeline_model_parallel_size", 1))] \
        if "virtual_pipeline_model_parallel_size" in sizes else [chunk(config, sizes, None, ddp)]
    optimizer = get_megatron_optimizer(OptimizerConfig(optimizer="adam", lr=1e-3, bf16=bf16, use_distributed_optimizer=sharded,
                                                       clip_grad=1.0, params_dtype=torch.bfloat16 if bf16 else torch.float32), chunks)
    config.finalize_model_grads_func = finalize_model_grads
    config.grad_scale_func = optimizer.scale_loss
    run.watch(chunks, optimizer)
    parameters = Parameters(chunks, optimizer)

    def forward_step(batches, model):
        ids = next(batches)
        positions = torch.arange(LENGTH).expand(BATCH, -1)
        mask = torch.triu(torch.ones(LENGTH, LENGTH, dtype=torch.bool), 1)[None, None]
        output = model(ids[:, :-1], positions, mask, labels=ids[:, 1:])

        def loss_of(losses):
            loss = losses.float().mean()
            return loss, {"loss": loss.detach()}

        return output, loss_of

    def batches(seed):
        generator = torch.Generator().manual_seed(seed)
        while True:
            yield torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1), generator=generator)

    pipelined = get_forward_backward_func()
    for number in run.steps():
        for model in chunks:
            model.zero_grad_buffer()
        optimizer.zero_grad()
        seed = 100 * number + parallel_state.get_data_parallel_rank()
        given = [batches(seed) for _ in chunks]
        losses = pipelined(forward_step_func=forward_step, data_iterator=given if len(chunks) > 1 else given[0],
                           model=chunks if len(chunks) > 1 else chunks[0], num_microbatches=MICRO_BATCHES, seq_length=LENGTH,
                           micro_batch_size=BATCH, forward_only=False)
        run.note("grad_reduced", parameters.gradients)
        if number:
            run.note("exp_avg", parameters.moments)
        optimizer.step()
        run.note("param_updated", parameters.values)
        run.end_step([part["loss"] for part in losses])
    run.close()
    if "save" in named:
        save(named.pop("save"), chunks, optimizer if run.count else None, **named)
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":   # writers of checkpoints are processes that import this file
    main()
