"""A tiny GPT of Megatron-core, cut into two stages with two chunks of the model each (virtual pipeline); contains nothing of
msprobe unless it is given a configuration.

usage: torchrun --nproc_per_node 2 megatron_train.py [--eps EPSILON] [--capture CONFIG]
--eps: of the norms of the last chunk, as another kernel library might have it. --capture: with PrecisionDebugger.
"""
import argparse

import torch
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func
from megatron.core.tensor_parallel.random import initialize_rng_tracker
from megatron.core.transformer.transformer_config import TransformerConfig

parser = argparse.ArgumentParser()
parser.add_argument("--eps", type=float, default=1e-5)
parser.add_argument("--capture")
options = parser.parse_args()
VOCABULARY, LENGTH, BATCH, CHUNKS = 32, 8, 2, 2
torch.set_num_threads(1)
torch.manual_seed(1)
torch.distributed.init_process_group("gloo")
sizes = dict(pipeline_model_parallel_size=2, virtual_pipeline_model_parallel_size=CHUNKS)
parallel_state.initialize_model_parallel(**sizes)
initialize_rng_tracker(inference_rng_tracker=True)
config = TransformerConfig(num_layers=4, hidden_size=16, num_attention_heads=2, use_cpu_initialization=True, pipeline_dtype=torch.float32,
                           hidden_dropout=0.0, attention_dropout=0.0, normalization="LayerNorm", deallocate_pipeline_outputs=False,
                           gradient_accumulation_fusion=False, bias_activation_fusion=False, masked_softmax_fusion=False,
                           bias_dropout_fusion=False, apply_rope_fusion=False, **sizes)
ddp = DistributedDataParallelConfig(check_for_nan_in_grad=False)
chunks = []
for number in range(CHUNKS):
    first = parallel_state.is_pipeline_first_stage(ignore_virtual=False, vp_stage=number)
    last = parallel_state.is_pipeline_last_stage(ignore_virtual=False, vp_stage=number)
    model = GPTModel(config, get_gpt_layer_local_spec(), VOCABULARY, LENGTH, position_embedding_type="rope", vp_stage=number,
                     share_embeddings_and_output_weights=False, pre_process=first, post_process=last)
    if last:
        for layer in model.decoder.layers:
            layer.input_layernorm.eps = options.eps
    chunks.append(DistributedDataParallel(config, ddp, model))
optimizer = get_megatron_optimizer(OptimizerConfig(optimizer="adam", lr=1e-3), chunks)
config.finalize_model_grads_func = finalize_model_grads
config.grad_scale_func = optimizer.scale_loss


def forward_step(batches, model):
    ids = next(batches)
    mask = torch.triu(torch.ones(LENGTH, LENGTH, dtype=torch.bool), 1)[None, None]
    output = model(ids[:, :-1], torch.arange(LENGTH).expand(BATCH, -1), mask, labels=ids[:, 1:])
    return output, lambda losses: (losses.mean(), {"loss": losses.mean().detach()})


def batches(seed):
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randint(0, VOCABULARY, (BATCH, LENGTH + 1), generator=generator)


debugger = None
if options.capture:
    from msprobe.pytorch import PrecisionDebugger
    debugger = PrecisionDebugger(options.capture)
forward_backward = get_forward_backward_func()
for step in range(2):
    for model in chunks:
        model.zero_grad_buffer()
    optimizer.zero_grad()
    if debugger:
        debugger.start(model=chunks)
    losses = forward_backward(forward_step_func=forward_step, data_iterator=[batches(step) for _ in chunks], model=chunks,
                              num_microbatches=2, seq_length=LENGTH, micro_batch_size=BATCH, forward_only=False)
    if debugger:
        debugger.stop()
    optimizer.step()
    if debugger:
        debugger.step()
    if losses:
        print("step %d: loss %.4f" % (step + 1, losses[0]["loss"].item()), flush=True)
torch.distributed.destroy_process_group()
