"""Correct pairs: a model and its child in every format. Nothing may be worse than rounding."""

import numpy as np

import encoders as en
import faults
import models as m

PAIRS = {}
EXPECTED_FORMATS = {f"hf_{form}": parts[2] for form, parts in m.HF_FORMATS.items()}
EXPECTED_FORMATS.update({f"gguf_{form}": form for form in en.GGUF_TYPES})


def pair(make):
    PAIRS[make.__name__] = make
    return make


def register_formats():
    def hugging_face(form):
        def make(folder):
            model = m.base_model()
            return m.write_base(folder / "base", model), m.write_quantised(folder / "child", model, form)

        return make

    def gguf(form):
        def make(folder):
            model = m.base_model()
            return m.write_base(folder / "base", model), m.write_gguf(folder / "child.gguf", model, form)

        return make

    for form in m.HF_FORMATS:
        PAIRS[f"hf_{form}"] = hugging_face(form)
    for form in en.GGUF_TYPES:
        PAIRS[f"gguf_{form}"] = gguf(form)


register_formats()


@pair
def two_quantised_sides(folder):
    model = m.base_model()
    return m.write_quantised(folder / "a", model, "fp8_block"), m.write_quantised(folder / "b", model, "int8_channel")


@pair
def fp8_and_gguf(folder):
    model = m.base_model()
    return m.write_quantised(folder / "a", model, "fp8_channel"), m.write_gguf(folder / "b.gguf", model, "q8_0")


@pair
def float32_and_bfloat16(folder):
    rng = np.random.default_rng(9)
    model = {name: (value * (1 + rng.random(value.shape) * 0.001)).astype(np.float32)
             for name, value in m.base_model().items()}
    return m.write_base(folder / "a", model, "f32"), m.write_base(folder / "b", {
        name: en.bf16(value) for name, value in model.items()})


@pair
def gguf_without_reordered_heads(folder):
    model = m.base_model()
    return m.write_base(folder / "a", model), m.write_gguf(folder / "b.gguf", model, "q8_0", "qwen2", permute=False)


@pair
def gguf_of_gemma(folder):
    """The converter adds one to the weights of norms."""
    model = {name: en.bf16((value - 1).astype(np.float32)) if name.endswith("norm.weight") else value
             for name, value in m.base_model().items()}
    stored = {name: value + np.float32(1) if name.endswith("norm.weight") else value for name, value in model.items()}
    return m.write_base(folder / "a", model), m.write_gguf(folder / "b.gguf", stored, "q8_0", "gemma", permute=False)


@pair
def fused_and_split(folder):
    model = m.base_model()
    tensors, config = faults.tensors_of(faults.fused(model), "fp8_block")
    return m.write_base(folder / "a", model), m.write_folder(folder / "b", tensors, config)


@pair
def lora(folder):
    return faults.adapter_pair(folder)


@pair
def lora_of_many_targets(folder):
    return faults.adapter_pair(folder, targets=("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj",
                                                "down_proj"))


@pair
def rslora(folder):
    return faults.adapter_pair(folder, scale=16 / np.sqrt(8), use_rslora=True)


@pair
def dora(folder):
    return faults.adapter_pair(folder, use_dora=True)


@pair
def weights_computed_in_bfloat16(folder):
    """Scales and quotients that a writer computed in bfloat16."""
    model = m.base_model()

    def encode(name, weight):
        scales = en.bf16((np.abs(weight).max(axis=1, keepdims=True) / 127).astype(np.float32))
        codes = np.clip(np.rint(en.bf16((weight / scales).astype(np.float32))), -128, 127).astype(np.int8)
        return {name: codes, name + "_scale": en.as_bf16(scales)}

    return m.write_base(folder / "a", model), m.write_folder(folder / "b", m.quantised(model, encode), None)


@pair
def gpt_oss_blocks(folder):
    """Experts in blocks of fp4; unquantised they lie turned."""
    rng = np.random.default_rng(3)
    model = m.base_model()
    name = "model.layers.0.mlp.experts.down_proj"
    weight = en.bf16((rng.standard_normal((4, 96, 64)) * 0.02).astype(np.float32))  # experts, out, in
    codes, exponents = en.mxfp4(weight.reshape(-1, 64))
    plain = {key: en.as_bf16(value) for key, value in model.items()}
    quantised = dict(plain)
    plain[name] = en.as_bf16(weight.swapaxes(1, 2).copy())
    quantised[name + "_blocks"] = en.pack_nibbles(codes).reshape(4, 96, 2, 16)
    quantised[name + "_scales"] = exponents.reshape(4, 96, 2)
    return m.write_folder(folder / "a", plain), m.write_folder(folder / "b", quantised, {"quant_method": "mxfp4"})
