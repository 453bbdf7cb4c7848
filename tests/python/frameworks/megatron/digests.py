"""A GPT of Megatron-core like a Llama, on the CPU, and an engine that got its weights: digests of both.

usage: digests.py tensor|pipeline|data|experts FOLDER

FOLDER/trainer: every rank's digest of what it holds. FOLDER/engine: one of the model with the names of Hugging Face that rank 0 was sent, as
a sync of weights sends them. FOLDER/before: the trainer's of the step before. FOLDER/<fault>: engines to which a sync did something wrong.
"""
import os
import sys
import zlib

import megatron_on_cpu  # noqa: F401  before anything of Megatron
import torch
from megatron.core import parallel_state
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.tensor_parallel.random import initialize_rng_tracker
from megatron.core.transformer.transformer_config import TransformerConfig

import msprobe.weights

HIDDEN, INNER, HEADS, GROUPS, LAYERS, EXPERTS, VOCABULARY, LENGTH = 32, 64, 4, 2, 4, 4, 64, 8
HEAD = HIDDEN // HEADS
SIZES = {"tensor": dict(tensor_model_parallel_size=2), "pipeline": dict(pipeline_model_parallel_size=2), "data": {},
         "experts": dict(expert_model_parallel_size=2)}


def build(kind):
    sizes = SIZES[kind]
    parallel_state.initialize_model_parallel(**sizes)
    initialize_rng_tracker(inference_rng_tracker=True)  # the other one needs CUDA's generators
    moe = dict(num_moe_experts=EXPERTS, moe_router_topk=2, moe_ffn_hidden_size=INNER, moe_token_dispatcher_type="allgather") if kind == "experts" else {}
    config = TransformerConfig(
        num_layers=LAYERS, hidden_size=HIDDEN, num_attention_heads=HEADS, num_query_groups=GROUPS, ffn_hidden_size=INNER,
        use_cpu_initialization=True, pipeline_dtype=torch.float32, hidden_dropout=0.0, attention_dropout=0.0, add_bias_linear=False,
        gated_linear_unit=True, activation_func=torch.nn.functional.silu, gradient_accumulation_fusion=False,
        bias_activation_fusion=False, masked_softmax_fusion=False, bias_dropout_fusion=False, apply_rope_fusion=False,
        normalization="RMSNorm", **moe, **sizes)
    spec = get_gpt_layer_local_spec(num_experts=moe.get("num_moe_experts"), normalization="RMSNorm")
    model = GPTModel(config, spec, VOCABULARY, LENGTH, position_embedding_type="rope", share_embeddings_and_output_weights=False,
                     pre_process=parallel_state.is_pipeline_first_stage(), post_process=parallel_state.is_pipeline_last_stage())
    rank = torch.distributed.get_rank()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            of_rank = kind in ("tensor", "pipeline") or "local_experts" in name
            torch.manual_seed(zlib.crc32(name.encode()) + (rank if of_rank else 0))
            if not name.endswith("norm.weight") and "layernorm" not in name and "router" not in name:
                parameter.copy_(torch.randn_like(parameter))
            else:   # the same in every rank
                parameter.copy_(torch.linspace(0.5, 1.5, parameter.numel()).reshape(parameter.shape) + len(name) / 100)
    return model


def whole(model, kind):
    """{Megatron's name in the whole model: tensor} on rank 0: every rank sends what it holds."""
    rank = torch.distributed.get_rank()
    first = rank * LAYERS // 2 if kind == "pipeline" else 0
    sent = []
    for name, parameter in model.named_parameters():
        path = name.split(".")
        if path[:2] == ["decoder", "layers"]:
            path[2] = str(int(path[2]) + first)
        if "local_experts" in path:
            at = path.index("local_experts") + 1
            path[at] = str(int(path[at]) + rank * EXPERTS // 2)
        cut = getattr(parameter, "partition_dim", -1) if kind == "tensor" and getattr(parameter, "tensor_model_parallel", False) else None
        sent.append((".".join(path), cut, getattr(parameter, "partition_stride", 1), parameter.detach().clone()))
    received = [None, None]
    torch.distributed.all_gather_object(received, sent)
    parts = {}
    for of_rank in received:
        for name, cut, stride, tensor in of_rank:
            parts.setdefault(name, []).append((cut, stride, tensor))
    result = {}
    for name, pieces in parts.items():
        cut, _, tensor = pieces[0]
        if cut is None:
            result[name] = tensor
        elif name.endswith("linear_fc1.weight"):   # each rank has its part of gate and of up
            halves = [piece.chunk(2) for _, _, piece in pieces]
            result[name] = torch.cat([half for number in range(2) for half in (part[number] for part in halves)])
        else:
            result[name] = torch.cat([piece for _, _, piece in pieces], cut)
    return result


def hugging_face(tensors):
    """The names and parameters of a Llama or Mixtral with unfused experts."""
    result = {}
    for name, tensor in tensors.items():
        name = name.replace("decoder.layers.", "model.layers.")
        base, _, last = name.rpartition(".")
        if name == "embedding.word_embeddings.weight":
            result["model.embed_tokens.weight"] = tensor
        elif name == "output_layer.weight":
            result["lm_head.weight"] = tensor
        elif name == "decoder.final_layernorm.weight":
            result["model.norm.weight"] = tensor
        elif "linear_qkv" in name:
            groups = tensor.reshape(GROUPS, (HEADS // GROUPS + 2) * HEAD, HIDDEN)
            q, k, v = groups.split([HEADS // GROUPS * HEAD, HEAD, HEAD], 1)
            base = base.replace("self_attention.linear_qkv", "self_attn.")
            for part, value in (("q", q), ("k", k), ("v", v)):
                result[base + part + "_proj.weight"] = value.reshape(-1, HIDDEN)
        elif "linear_proj" in name:
            result[base.replace("self_attention.linear_proj", "self_attn.o_proj") + ".weight"] = tensor
        elif "linear_fc1" in name:
            gate, up = tensor.chunk(2)
            base = base.replace("local_experts.", "").rpartition(".")[0]
            result[base + ".gate_proj.weight"], result[base + ".up_proj.weight"] = gate, up
        elif "linear_fc2" in name:
            result[base.replace("local_experts.", "").rpartition(".")[0] + ".down_proj.weight"] = tensor
        elif "router" in name:
            result[base.replace("mlp.router", "mlp.gate") + ".weight"] = tensor
        else:
            result[name.replace("pre_mlp_layernorm", "post_attention_layernorm")] = tensor
    return result


def main(kind, folder):
    torch.distributed.init_process_group("gloo")
    model = build(kind)
    before = hugging_face(whole(model, kind))
    msprobe.weights.digest(model, os.path.join(folder, "before"))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.01).add_(0.001)
    trainer = os.path.join(folder, "trainer")
    msprobe.weights.digest(model, trainer)
    engine = hugging_face(whole(model, kind))
    if torch.distributed.get_rank() == 0:
        facts = {"model": {"attention_heads": HEADS, "query_groups": GROUPS}}

        def write(name, tensors):
            msprobe.weights.digest(tensors, os.path.join(folder, name), layout=dict(facts, rank=0, world_size=1))

        write("engine", engine)
        write("stale", {name: before[name] if ".layers.2." in name else tensor for name, tensor in engine.items()})
        shard = dict(engine)
        name = "model.layers.1.mlp.down_proj.weight" if kind != "experts" else "model.layers.1.mlp.experts.2.down_proj.weight"
        shard[name] = torch.cat([engine[name][:HIDDEN // 2], before[name][HIDDEN // 2:]])
        write("shard", shard)
        one, other = ("model.layers.1.mlp.experts.1.gate_proj.weight", "model.layers.1.mlp.experts.3.gate_proj.weight") \
            if kind == "experts" else ("model.layers.0.mlp.up_proj.weight", "model.layers.1.mlp.up_proj.weight")
        write("swapped", dict(engine, **{one: engine[other], other: engine[one]}))
        scaled = "model.layers.3.self_attn.o_proj.weight"
        write("scale", dict(engine, **{scaled: engine[scaled] / 0.02}))
        ranks = os.path.join(folder, "lost")
        os.makedirs(ranks)
        os.link(os.path.join(trainer, "digest_rank0.json"), os.path.join(ranks, "digest_rank0.json"))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
