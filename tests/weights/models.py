"""A small model in bfloat16, and the same model in every format that msprobe reads."""

import json
from pathlib import Path

import numpy as np

import encoders as en

HIDDEN = 256
INNER = 512
HEADS = 4
KV_HEADS = 2
VOCAB = 128
LAYERS = 2

# Linear weights of a layer: what is quantised.
LINEARS = {
    "self_attn.q_proj": (HIDDEN, HIDDEN),
    "self_attn.k_proj": (HIDDEN // 2, HIDDEN),
    "self_attn.v_proj": (HIDDEN // 2, HIDDEN),
    "self_attn.o_proj": (HIDDEN, HIDDEN),
    "mlp.gate_proj": (INNER, HIDDEN),
    "mlp.up_proj": (INNER, HIDDEN),
    "mlp.down_proj": (HIDDEN, INNER),
}


def base_model(seed=1):
    """Names to float32 values that bfloat16 holds."""
    rng = np.random.default_rng(seed)

    def draw(*shape, scale=0.02):
        values = rng.standard_normal(shape) * scale
        # Some outliers, as trained weights have.
        values *= np.where(rng.random(shape) < 0.002, 6, 1)
        return en.bf16(values.astype(np.float32))

    model = {"model.embed_tokens.weight": draw(VOCAB, HIDDEN)}
    for layer in range(LAYERS):
        prefix = f"model.layers.{layer}."
        for name, shape in LINEARS.items():
            model[f"{prefix}{name}.weight"] = draw(*shape)
        model[f"{prefix}input_layernorm.weight"] = en.bf16(1 + draw(HIDDEN))
        model[f"{prefix}post_attention_layernorm.weight"] = en.bf16(1 + draw(HIDDEN))
    model["model.norm.weight"] = en.bf16(1 + draw(HIDDEN))
    model["lm_head.weight"] = draw(VOCAB, HIDDEN)
    return model


def is_linear(name):
    return ".layers." in name and name.endswith("_proj.weight")


CONFIG = {"model_type": "llama", "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
          "num_key_value_heads": KV_HEADS, "hidden_size": HIDDEN, "head_dim": HIDDEN // HEADS, "vocab_size": VOCAB}


def write_folder(folder, tensors, quantisation=None, extra=None):
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    en.write_safetensors(folder / "model.safetensors", tensors)
    config = dict(CONFIG)
    config.update(extra or {})
    if quantisation is not None:
        config["quantization_config"] = quantisation
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def write_base(folder, model, dtype="bf16"):
    cast = {"bf16": en.as_bf16, "f32": lambda v: v.astype(np.float32), "f16": lambda v: v.astype(np.float16)}[dtype]
    return write_folder(folder, {name: cast(value) for name, value in model.items()})


def quantised(model, encode):
    """Tensors of a model whose linear weights are what `encode(name, weight)` makes of them."""
    tensors = {}
    for name, weight in model.items():
        if is_linear(name):
            tensors.update(encode(name, weight))
        else:
            tensors[name] = en.as_bf16(weight)
    return tensors


def fp8_parts(name, weight, rows, columns, suffix="_scale_inv", table=None, dtype="F8_E4M3", power_of_two=None,
              scale_dtype=None):
    codes, scales = en.fp8(weight, rows, columns, en.E4M3 if table is None else table, power_of_two)
    scale_name = name + suffix if suffix.startswith("_") else name.removesuffix("weight") + suffix
    if scale_dtype == "e8m0":
        stored = en.Bits("F8_E8M0", (np.log2(scales) + 127).astype(np.uint8))
    elif scale_dtype == "bf16":
        stored = en.as_bf16(scales)
    else:
        stored = scales
    return {name: en.Bits(dtype, codes), scale_name: stored}


FP8_CONFIG = {"quant_method": "fp8", "weight_block_size": [128, 128], "fmt": "e4m3"}


def compressed_config(form, **weights):
    return {"quant_method": "compressed-tensors", "format": form,
            "config_groups": {"group_0": {"targets": ["Linear"], "weights": weights}}}


def stem(name):
    return name.removesuffix("weight")


def nested_names(name, parts):
    return {name + "." + key: value for key, value in parts.items()}


def nf4_parts(name, weight, nested):
    codes, tensors, _ = en.nf4(weight, nested=nested)
    return {name: codes, **nested_names(name, tensors)}


def gptq_parts(name, weight, **options):
    return {stem(name) + key: value for key, value in en.gptq(weight, **options).items()}


def act_order(weight, seed=3):
    return np.random.default_rng(seed).permutation(weight.shape[1])


def nvfp4_parts(name, weight, modelopt):
    packed, scales, whole = en.nvfp4(weight)
    if modelopt:
        return {name: packed, name + "_scale": en.Bits("F8_E4M3", scales),
                name + "_scale_2": np.array(1 / whole, dtype=np.float32),
                stem(name) + "input_scale": np.array(0.01, dtype=np.float32)}
    return {stem(name) + "weight_packed": packed, name + "_scale": en.Bits("F8_E4M3", scales),
            name + "_global_scale": np.array([whole], dtype=np.float32)}


def mxfp4_parts(name, weight):
    codes, exponents = en.mxfp4(weight)
    return {stem(name) + "weight_packed": en.pack_nibbles(codes), name + "_scale": exponents}


def int8_asymmetric_parts(name, weight):
    codes, scales, zero = en.int8_asymmetric(weight)
    return {name: codes, name + "_scale": scales, name + "_zero_point": zero}


def int8_parts(name, weight, **options):
    codes, scales = en.int8(weight, **options)
    return {name: codes, name + "_scale": scales}


def bnb_int8_parts(name, weight):
    largest = np.abs(weight).max(axis=1)
    codes = np.rint(weight / largest[:, None] * 127).astype(np.int8)
    return {name: codes, stem(name) + "SCB": largest.astype(np.float32),
            stem(name) + "weight_format": np.array(0, dtype=np.uint8)}


# name -> (encode(name, weight), quantization_config, the format that msprobe is to say)
HF_FORMATS = {
    "fp8_block": (lambda n, w: fp8_parts(n, w, 128, 128), FP8_CONFIG, "fp8_e4m3 block 128x128"),
    "fp8_block_bf16_scales": (lambda n, w: fp8_parts(n, w, 128, 128, scale_dtype="bf16"), FP8_CONFIG,
                              "fp8_e4m3 block 128x128"),
    "fp8_block_no_config": (lambda n, w: fp8_parts(n, w, 128, 128), None, "fp8_e4m3 block 128x128"),
    "fp8_scale_name": (lambda n, w: fp8_parts(n, w, 128, 128, suffix="scale"), FP8_CONFIG, "fp8_e4m3 block 128x128"),
    "fp8_block_64": (lambda n, w: fp8_parts(n, w, 64, 64), dict(FP8_CONFIG, weight_block_size=[64, 64]),
                     "fp8_e4m3 block 64x64"),
    "fp8_ue8m0_up": (lambda n, w: fp8_parts(n, w, 128, 128, power_of_two="up"), dict(FP8_CONFIG, scale_fmt="ue8m0"),
                     "fp8_e4m3 block 128x128 ue8m0"),
    "fp8_ue8m0_down": (lambda n, w: fp8_parts(n, w, 128, 128, power_of_two="down", scale_dtype="e8m0"),
                       dict(FP8_CONFIG, scale_fmt="ue8m0"), "fp8_e4m3 block 128x128 ue8m0"),
    "fp8_channel": (lambda n, w: fp8_parts(n, w, 1, w.shape[1], "_scale"),
                    compressed_config("float-quantized", num_bits=8, type="float", strategy="channel"),
                    "fp8_e4m3 channel"),
    "fp8_tensor": (lambda n, w: fp8_parts(n, w, *w.shape, "_scale"),
                   compressed_config("float-quantized", num_bits=8, type="float", strategy="tensor"),
                   "fp8_e4m3 tensor"),
    "fp8_e5m2_tensor": (lambda n, w: fp8_parts(n, w, *w.shape, "_scale", en.E5M2, "F8_E5M2"), None,
                        "fp8_e5m2 tensor"),
    "mxfp8": (lambda n, w: fp8_parts(n, w, 1, 32, "_scale", power_of_two="down", scale_dtype="e8m0"), None, "mxfp8"),
    "int8_channel": (int8_parts, compressed_config("int-quantized", num_bits=8, type="int", strategy="channel"),
                     "int8 channel"),
    "int8_tensor": (lambda n, w: int8_parts(n, w, per_channel=False),
                    compressed_config("int-quantized", num_bits=8, type="int", strategy="tensor"), "int8 tensor"),
    "int8_asymmetric": (int8_asymmetric_parts,
                        compressed_config("int-quantized", num_bits=8, type="int", symmetric=False),
                        "int8 channel asymmetric"),
    "int4_group": (lambda n, w: {stem(n) + k: v for k, v in en.compressed_int(w, 128).items()},
                   compressed_config("pack-quantized", num_bits=4, type="int", strategy="group", group_size=128),
                   "int4 group 128"),
    "int4_group_asymmetric": (
        lambda n, w: {stem(n) + k: v for k, v in en.compressed_int(w, 64, symmetric=False).items()},
        compressed_config("pack-quantized", num_bits=4, type="int", group_size=64, symmetric=False),
        "int4 group 64 asymmetric"),
    "int8_packed": (lambda n, w: {stem(n) + k: v for k, v in en.compressed_int(w, 128, bits=8).items()},
                    compressed_config("pack-quantized", num_bits=8, type="int", group_size=128), "int8 group 128"),
    "nvfp4": (lambda n, w: nvfp4_parts(n, w, False), compressed_config("nvfp4-pack-quantized", num_bits=4,
                                                                       type="float", group_size=16), "nvfp4"),
    "nvfp4_modelopt": (lambda n, w: nvfp4_parts(n, w, True), {"quant_method": "modelopt", "quant_algo": "NVFP4"},
                       "nvfp4"),
    "mxfp4": (mxfp4_parts, compressed_config("mxfp4-pack-quantized", num_bits=4, type="float", group_size=32),
              "mxfp4"),
    "gptq": (lambda n, w: gptq_parts(n, w, group=128), {"quant_method": "gptq", "bits": 4, "group_size": 128},
             "int4 group 128"),
    "gptq_asymmetric": (lambda n, w: gptq_parts(n, w, group=64, symmetric=False),
                        {"quant_method": "gptq", "bits": 4, "group_size": 64}, "int4 group 64 asymmetric"),
    "gptq_act_order": (lambda n, w: gptq_parts(n, w, group=32, order=act_order(w)),
                       {"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True}, "int4 group 32"),
    "gptq_v2": (lambda n, w: gptq_parts(n, w, group=128, symmetric=False, v2=True),
                {"quant_method": "gptq", "bits": 4, "group_size": 128, "checkpoint_format": "gptq_v2"},
                "int4 group 128 asymmetric"),
    "gptq_8": (lambda n, w: gptq_parts(n, w, group=128, bits=8), {"quant_method": "gptq", "bits": 8,
                                                                   "group_size": 128}, "int8 group 128"),
    "gptq_3": (lambda n, w: gptq_parts(n, w, group=128, bits=3, symmetric=False),
               {"quant_method": "gptq", "bits": 3, "group_size": 128}, "int3 group 128 asymmetric"),
    "awq": (lambda n, w: {stem(n) + k: v for k, v in en.awq(w, 128).items()},
            {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm"}, "int4 group 128 asymmetric"),
    "nf4": (lambda n, w: nf4_parts(n, w, False), {"quant_method": "bitsandbytes", "load_in_4bit": True},
            "nf4 group 64"),
    "nf4_nested": (lambda n, w: nf4_parts(n, w, True), {"quant_method": "bitsandbytes", "load_in_4bit": True},
                   "nf4 group 64"),
    "bnb_int8": (bnb_int8_parts, {"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8 channel"),
}


def write_quantised(folder, model, form):
    encode, config, _ = HF_FORMATS[form]
    return write_folder(folder, quantised(model, encode), config)


GGUF_NAMES = {
    "model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}
GGUF_LAYER_NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
}
GGUF_METADATA = {"general.architecture": "llama", "llama.block_count": LAYERS, "llama.attention.head_count": HEADS,
                 "llama.attention.head_count_kv": KV_HEADS, "llama.embedding_length": HIDDEN,
                 "llama.feed_forward_length": INNER, "tokenizer.ggml.tokens": ["a", "b", "<s>"]}


def gguf_name(name):
    if name in GGUF_NAMES:
        return GGUF_NAMES[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{GGUF_LAYER_NAMES[rest.removesuffix('.weight')]}.weight"


def write_gguf(path, model, form, architecture="llama", permute=True, change=None):
    tensors = {}
    for name, weight in model.items():
        kind = form if is_linear(name) else ("f32" if weight.ndim == 1 else "f16")
        if permute and "q_proj" in name:
            weight = en.permute_heads(weight, HEADS)
        elif permute and "k_proj" in name:
            weight = en.permute_heads(weight, KV_HEADS)
        tensors[gguf_name(name)] = (kind, weight)
    if change is not None:
        change(tensors)
    metadata = {key.replace("llama.", architecture + "."): value for key, value in GGUF_METADATA.items()}
    metadata["general.architecture"] = architecture
    en.write_gguf(path, tensors, metadata)
    return path
