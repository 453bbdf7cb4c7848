"""vLLM's engine gets the weights of a trainer of Transformers at each step; digests of both.

usage: digests.py FOLDER

FOLDER/before and FOLDER/trainer: the trainer's digests before and after a step. FOLDER/loaded: the engine's, which read the model's files.
FOLDER/engine: after a sync. FOLDER/<fault>: after a sync that did something wrong. FOLDER/quantised: the weights in fp8, as files;
FOLDER/dequantised: the engine that was sent their values; FOLDER/scale: the same with a scale forgotten.
"""
import json
import os
import sys
import tempfile

import serve  # noqa: F401  before anything of vLLM: its settings
import safetensors.torch
import torch
import transformers
import vllm
from vllm.model_executor.layers.linear import LinearBase

import msprobe.weights

# On the CPU vLLM packs the weights of linear layers for its kernels and drops them. On accelerators it keeps them, as layers do that have
# this mark of its own.
LinearBase._cpu_skip_gemm_dispatch = True


def quantise(folder, tensors):
    """Block fp8, as Hugging Face's finegrained fp8 writes it; {name: (codes, scale)} of what is in blocks of the size of a matrix."""
    os.makedirs(folder)
    stored, parts = {}, {}
    for name, tensor in tensors.items():
        if not name.endswith("_proj.weight"):
            stored[name] = tensor.contiguous()
            continue
        scale = tensor.abs().max() / 448
        codes = (tensor / scale).to(torch.float8_e4m3fn)
        stored[name], stored[name + "_scale_inv"] = codes, scale.reshape(1, 1)
        parts[name] = (codes, scale)
    safetensors.torch.save_file(stored, os.path.join(folder, "model.safetensors"))
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump({"model_type": "llama", "num_attention_heads": 2, "num_key_value_heads": 1, "hidden_size": 64, "head_dim": 32,
                   "vocab_size": serve.VOCABULARY, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}, file)
    return parts


def main(folder):
    with tempfile.TemporaryDirectory() as model:
        serve.write_model(model)
        trainer = transformers.LlamaForCausalLM.from_pretrained(model, dtype=torch.float32)
        engine = vllm.LLM(model, skip_tokenizer_init=True, enforce_eager=True, dtype="float32", max_model_len=64, max_num_seqs=4,
                          num_gpu_blocks_override=16, seed=3)

    def write(name):
        engine.apply_model(lambda held: msprobe.weights.digest(held, os.path.join(folder, name)) and None)

    def sync(name, tensors):
        engine.apply_model(lambda held: held.load_weights(iter(tensors.items())) and None)
        write(name)

    before = {name: tensor.clone() for name, tensor in trainer.state_dict().items()}
    msprobe.weights.digest(trainer, os.path.join(folder, "before"))
    write("loaded")
    optimizer = torch.optim.AdamW(trainer.parameters(), lr=1e-2)
    trainer(torch.arange(3, 20)[None], labels=torch.arange(3, 20)[None]).loss.backward()
    optimizer.step()
    msprobe.weights.digest(trainer, os.path.join(folder, "trainer"))
    held = {name: tensor.clone() for name, tensor in trainer.state_dict().items()}
    sync("engine", held)
    sync("stale", {name: before[name] if ".layers.1." in name else tensor for name, tensor in held.items()})
    name = "model.layers.0.mlp.down_proj.weight"
    sync("shard", dict(held, **{name: torch.cat([held[name][:32], before[name][32:]])}))
    one, other = "model.layers.0.mlp.up_proj.weight", "model.layers.1.mlp.up_proj.weight"
    sync("swapped", dict(held, **{one: held[other], other: held[one]}))
    parts = quantise(os.path.join(folder, "quantised"), held)
    values = dict(held, **{name: codes.float() * scale for name, (codes, scale) in parts.items()})
    sync("dequantised", values)
    sync("scale", dict(values, **{name: parts[name][0].float()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
