"""Small models and the checkpoints that training frameworks write of them."""
import argparse
import json
import os

import torch
import torch.nn as nn

DTYPE_NAMES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}


class Sizes:
    """Of the models below: grouped queries, a gated feed-forward."""
    layers = 4
    hidden = 16
    heads = 4
    groups = 2
    head_size = 4
    inner = 24
    vocabulary = 40
    positions = 8


class LlamaAttention(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        queries, keys = sizes.heads * sizes.head_size, sizes.groups * sizes.head_size
        self.q_proj = nn.Linear(sizes.hidden, queries, bias=False)
        self.k_proj = nn.Linear(sizes.hidden, keys, bias=False)
        self.v_proj = nn.Linear(sizes.hidden, keys, bias=False)
        self.o_proj = nn.Linear(queries, sizes.hidden, bias=False)


class LlamaFeedForward(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.gate_proj = nn.Linear(sizes.hidden, sizes.inner, bias=False)
        self.up_proj = nn.Linear(sizes.hidden, sizes.inner, bias=False)
        self.down_proj = nn.Linear(sizes.inner, sizes.hidden, bias=False)


class Norm(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(hidden))


class LlamaLayer(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.input_layernorm = Norm(sizes.hidden)
        self.self_attn = LlamaAttention(sizes)
        self.post_attention_layernorm = Norm(sizes.hidden)
        self.mlp = LlamaFeedForward(sizes)


class LlamaBody(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.embed_tokens = nn.Embedding(sizes.vocabulary, sizes.hidden)
        self.layers = nn.ModuleList(LlamaLayer(sizes) for _ in range(sizes.layers))
        self.norm = Norm(sizes.hidden)


class TinyLlama(nn.Module):
    """The parameters of a LLaMA under the names that Hugging Face gives them."""

    def __init__(self, sizes=Sizes, tied=False):
        super().__init__()
        self.model = LlamaBody(sizes)
        if not tied:
            self.lm_head = nn.Linear(sizes.hidden, sizes.vocabulary, bias=False)

    def weights(self):
        return {name: tensor.detach().clone() for name, tensor in self.state_dict().items()}


def join_by_groups(query, key, value, groups):
    """Megatron's order of rows: for every query group its queries, its key, its value."""
    parts = [part.view(groups, part.shape[0] // groups, *part.shape[1:])
             for part in (query, key, value)]
    joined = torch.cat(parts, dim=1)
    return joined.reshape(-1, *query.shape[1:])


def llama_to_megatron(weights, sizes=Sizes):
    """Whole parameters under Megatron core's names; gate and up still apart."""
    result = {"embedding.word_embeddings.weight": weights["model.embed_tokens.weight"]}
    for layer in range(sizes.layers):
        old, new = "model.layers.%d." % layer, "decoder.layers.%d." % layer
        attention = [weights[old + "self_attn.%s_proj.weight" % name] for name in "qkv"]
        result[new + "input_layernorm.weight"] = weights[old + "input_layernorm.weight"]
        result[new + "self_attention.linear_qkv.weight"] = join_by_groups(*attention, sizes.groups)
        result[new + "self_attention.linear_proj.weight"] = weights[old + "self_attn.o_proj.weight"]
        result[new + "pre_mlp_layernorm.weight"] = weights[old + "post_attention_layernorm.weight"]
        result[new + "mlp.linear_fc1.weight"] = (weights[old + "mlp.gate_proj.weight"],
                                                 weights[old + "mlp.up_proj.weight"])
        result[new + "mlp.linear_fc2.weight"] = weights[old + "mlp.down_proj.weight"]
    result["decoder.final_layernorm.weight"] = weights["model.norm.weight"]
    if "lm_head.weight" in weights:
        result["output_layer.weight"] = weights["lm_head.weight"]
    return result


def tiny_gpt(sizes=Sizes):
    """A GPT with biases, learned positions and tied embeddings, under Megatron core's names."""
    hidden, inner = sizes.hidden, 4 * sizes.hidden
    result = {"embedding.word_embeddings.weight": torch.randn(sizes.vocabulary, hidden),
              "embedding.position_embeddings.weight": torch.randn(sizes.positions, hidden)}
    for layer in range(sizes.layers):
        name = "decoder.layers.%d." % layer
        for norm in ("input_layernorm", "pre_mlp_layernorm"):
            result[name + norm + ".weight"] = torch.randn(hidden)
            result[name + norm + ".bias"] = torch.randn(hidden)
        for linear, rows, columns in (("self_attention.linear_qkv", 3 * hidden, hidden),
                                      ("self_attention.linear_proj", hidden, hidden),
                                      ("mlp.linear_fc1", inner, hidden),
                                      ("mlp.linear_fc2", hidden, inner)):
            result[name + linear + ".weight"] = torch.randn(rows, columns)
            result[name + linear + ".bias"] = torch.randn(rows)
    result["decoder.final_layernorm.weight"] = torch.randn(hidden)
    result["decoder.final_layernorm.bias"] = torch.randn(hidden)
    return result


def megatron_to_gpt2(weights, sizes=Sizes):
    """What Hugging Face's GPT-2 holds: matrices turned, all queries before all keys and values."""
    def apart(joined):
        rows = joined.view(sizes.heads, 3, -1, *joined.shape[1:])
        return torch.cat([rows[:, part].reshape(-1, *joined.shape[1:]) for part in range(3)])

    result = {"transformer.wte.weight": weights["embedding.word_embeddings.weight"],
              "transformer.wpe.weight": weights["embedding.position_embeddings.weight"]}
    for layer in range(sizes.layers):
        old, new = "decoder.layers.%d." % layer, "transformer.h.%d." % layer
        for kind in ("weight", "bias"):
            result[new + "ln_1." + kind] = weights[old + "input_layernorm." + kind]
            result[new + "ln_2." + kind] = weights[old + "pre_mlp_layernorm." + kind]
            joined = apart(weights[old + "self_attention.linear_qkv." + kind])
            result[new + "attn.c_attn." + kind] = joined.t().contiguous()
            for theirs, ours in (("attn.c_proj.", "self_attention.linear_proj."),
                                 ("mlp.c_fc.", "mlp.linear_fc1."),
                                 ("mlp.c_proj.", "mlp.linear_fc2.")):
                result[new + theirs + kind] = weights[old + ours + kind].t().contiguous()
        mask = torch.ones(sizes.positions, sizes.positions).tril()
        result[new + "attn.bias"] = mask.view(1, 1, sizes.positions, sizes.positions)
    for kind in ("weight", "bias"):
        result["transformer.ln_f." + kind] = weights["decoder.final_layernorm." + kind]
    return result


def tensor_rank_part(name, tensor, rank, ranks):
    """What one tensor-parallel rank holds of a parameter; of gate and up a half of each."""
    if isinstance(tensor, tuple):
        return torch.cat([half.chunk(ranks)[rank] for half in tensor]).contiguous()
    rows = ("linear_qkv", "linear_fc1", "word_embeddings.weight", "output_layer.weight")
    if any(part in name for part in rows):
        return tensor.chunk(ranks)[rank].contiguous().clone()
    if name.endswith(("linear_proj.weight", "linear_fc2.weight")):
        return tensor.chunk(ranks, dim=1)[rank].contiguous().clone()
    return tensor.clone()


def stage_part(weights, stage, stages, sizes=Sizes):
    """What one pipeline stage holds, its layers counted from 0."""
    per_stage = sizes.layers // stages
    part = {}
    for name, tensor in weights.items():
        if name.startswith("decoder.layers."):
            layer = int(name.split(".")[2])
            if layer // per_stage == stage:
                part[name.replace(".%d." % layer, ".%d." % (layer % per_stage), 1)] = tensor
        elif stage == (0 if name.startswith("embedding.") else stages - 1):
            part[name] = tensor
    return part


def save_megatron(root, weights, tensor_ranks=2, stages=2, sizes=Sizes, **facts):
    """A tree as Megatron's torch format has it; `facts` are further arguments to record."""
    args = argparse.Namespace(
        tensor_model_parallel_size=tensor_ranks, pipeline_model_parallel_size=stages,
        expert_model_parallel_size=1, num_experts=None, num_layers=sizes.layers,
        hidden_size=sizes.hidden, num_attention_heads=sizes.heads, **facts)
    folder = os.path.join(root, "iter_0000005")
    for stage in range(stages):
        part = stage_part(weights, stage, stages, sizes)
        for rank in range(tensor_ranks):
            name = "mp_rank_%02d" % rank + ("_%03d" % stage if stages > 1 else "")
            os.makedirs(os.path.join(folder, name))
            state = {"args": args, "checkpoint_version": 3.0, "iteration": 5,
                     "model": {key: tensor_rank_part(key, tensor, rank, tensor_ranks)
                               for key, tensor in part.items()},
                     "optimizer": {"step": 5}}
            torch.save(state, os.path.join(folder, name, "model_optim_rng.pt"))
    with open(os.path.join(root, "latest_checkpointed_iteration.txt"), "w") as file:
        file.write("5")
    return root


def save_safetensors(path, tensors):
    header, blobs, at = {}, [], 0
    for name, tensor in tensors.items():
        tensor = tensor.contiguous()
        numbers = tensor.view(torch.int16) if tensor.dtype == torch.bfloat16 else tensor
        blob = numbers.numpy().tobytes()
        header[name] = {"dtype": DTYPE_NAMES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + b"".join(blobs))


def save_hugging_face(folder, tensors, config=None, shards=2):
    """A folder of shards with their index, and config.json."""
    os.makedirs(folder)
    names = list(tensors)
    index = {}
    for shard in range(shards):
        name = "model-%05d-of-%05d.safetensors" % (shard + 1, shards)
        part = names[shard * len(names) // shards:(shard + 1) * len(names) // shards]
        save_safetensors(os.path.join(folder, name), {key: tensors[key] for key in part})
        index.update((key, name) for key in part)
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {}, "weight_map": index}, file)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config if config is not None else llama_config(), file)
    return folder


def llama_config(sizes=Sizes):
    return {"model_type": "llama", "num_hidden_layers": sizes.layers,
            "hidden_size": sizes.hidden, "num_attention_heads": sizes.heads,
            "num_key_value_heads": sizes.groups, "intermediate_size": sizes.inner,
            "vocab_size": sizes.vocabulary, "hidden_act": "silu"}
