"""Planted faults: what production tools have done to weights, each with the parameter and the cause that must be named.

A fault is a function that writes both sides below a folder and returns (test, reference, flags, expected), where
expected maps names of parameters to causes. All other parameters must be clean.
"""

import json

import numpy as np

import encoders as en
import models as m

LAYER = "model.layers.1."
Q, K, V = (f"{LAYER}self_attn.{name}_proj.weight" for name in "qkv")
O = f"{LAYER}self_attn.o_proj.weight"
GATE, UP, DOWN = (f"{LAYER}mlp.{name}_proj.weight" for name in ("gate", "up", "down"))

FAULTS = {}


def fault(*cases):
    """Registers a function once, or once for each case."""

    def register(make):
        for case in cases or [()]:
            arguments = case if isinstance(case, tuple) else (case,)
            name = "_".join([make.__name__, *(str(argument) for argument in arguments)])
            FAULTS[name] = lambda folder, make=make, arguments=arguments: make(folder, *arguments)
        return make

    return register


def tensors_of(model, form):
    encode, config, _ = m.HF_FORMATS[form]
    return m.quantised(model, encode), config


def write_child(folder, form, change):
    """The base, and a child in a format after `change(tensors, model)`."""
    model = m.base_model()
    tensors, config = tensors_of(model, form)
    config = change(tensors, model) or config
    return m.write_base(folder / "base", model), m.write_folder(folder / "child", tensors, config)


def expect(parameter, cause):
    return {parameter: cause}


def scale_name(form):
    return {"fp8_block": "_scale_inv", "fp8_ue8m0_up": "_scale_inv"}.get(form, "_scale")


# --------------------------------------------------------------------------- scales

SCALED = ["fp8_block", "fp8_channel", "fp8_tensor", "int8_channel"]


@fault(*SCALED)
def scales_left_out(folder, form):
    def change(tensors, _):
        del tensors[Q + scale_name(form)]

    return *write_child(folder, form, change), [], expect(Q, "scale_missing")


@fault("fp8_block", "int8_channel", "fp8_channel")
def scales_of_one(folder, form):
    def change(tensors, _):
        tensors[DOWN + scale_name(form)] = np.ones_like(tensors[DOWN + scale_name(form)])

    return *write_child(folder, form, change), [], expect(DOWN, "scale_missing")


@fault(*SCALED)
def scales_inverted(folder, form):
    def change(tensors, _):
        tensors[GATE + scale_name(form)] = 1 / tensors[GATE + scale_name(form)]

    return *write_child(folder, form, change), [], expect(GATE, "scale_inverted")


def numbers_of(form, tensors, name):
    """Codes as numbers and scales spread over them."""
    codes = tensors[name]
    numbers = en.E4M3[codes.bits] if isinstance(codes, en.Bits) else codes.astype(np.float64)
    scales = tensors[name + scale_name(form)]
    height, width = numbers.shape
    if form == "fp8_block":
        scales = scales.repeat(128, 0)[:height].repeat(128, 1)[:, :width]
    return numbers, np.broadcast_to(scales, numbers.shape)


@fault(*[(form, how) for form in ("fp8_block", "fp8_channel", "int8_channel") for how in ("missing", "inverted")])
def dequantised_wrongly(folder, form, how):
    """A right quantised model, and one that somebody dequantised from it without scales, or by division."""
    model = m.base_model()
    tensors, config = tensors_of(model, form)
    quantised = m.write_folder(folder / "quantised", tensors, config)
    plain = {name: en.as_bf16(value) for name, value in model.items()}
    for name in model:
        if m.is_linear(name):
            numbers, scales = numbers_of(form, tensors, name)
            values = numbers * scales
            if name == V:
                values = numbers if how == "missing" else numbers / scales
            plain[name] = en.as_bf16(values.astype(np.float32))
    return quantised, m.write_folder(folder / "plain", plain), [], expect(V, f"scale_{how}")


@fault("fp8_block", "fp8_ue8m0_up")
def scale_of_one_block_doubled(folder, form):
    def change(tensors, _):
        scales = tensors[GATE + scale_name(form)]
        scales[scales.shape[0] - 1, 0] *= 2

    return *write_child(folder, form, change), [], expect(GATE, "scale_mismatch")


@fault("fp8_channel", "int8_channel", "bnb_int8")
def scales_shifted_by_a_row(folder, form):
    def change(tensors, model):
        # Rows of very different size, so that each has a scale of its own.
        name = m.stem(O) + "SCB" if form == "bnb_int8" else O + "_scale"
        tensors[name] = np.roll(tensors[name], 1, axis=0)

    model = m.base_model()
    rows = np.exp2(np.arange(m.HIDDEN) % 4)[:, None]
    model[O] = en.bf16((model[O] * rows).astype(np.float32))
    tensors, config = tensors_of(model, form)
    change(tensors, model)
    return (m.write_base(folder / "base", model), m.write_folder(folder / "child", tensors, config), [],
            expect(O, "scale_mismatch"))


@fault("int4_group", "gptq", "awq", "nf4", "mxfp4", "nvfp4")
def scales_doubled(folder, form):
    def change(tensors, _):
        for name in list(tensors):
            if name.startswith(m.stem(UP)) and name.split(".")[-1] in ("weight_scale", "scales", "absmax"):
                scales = tensors[name]
                if isinstance(scales, en.Bits):
                    # e4m3: one more exponent doubles.
                    tensors[name] = en.Bits(scales.dtype, np.minimum(scales.bits + 8, 0x7E).astype(np.uint8))
                elif scales.dtype == np.uint8:
                    tensors[name] = scales + np.uint8(1)
                else:
                    tensors[name] = (scales * 2).astype(scales.dtype)

    return *write_child(folder, form, change), [], expect(UP, "scale_mismatch")


@fault("nvfp4", "nvfp4_modelopt")
def scale_of_the_whole_tensor(folder, form):
    def change(tensors, _):
        name = UP + ("_global_scale" if form == "nvfp4" else "_scale_2")
        tensors[name] = np.ones_like(tensors[name])

    return *write_child(folder, form, change), [], expect(UP, "scale_missing")


@fault("nvfp4", "nvfp4_modelopt")
def scale_of_the_whole_tensor_inverted(folder, form):
    def change(tensors, _):
        name = UP + ("_global_scale" if form == "nvfp4" else "_scale_2")
        tensors[name] = (1 / tensors[name]).astype(np.float32)

    return *write_child(folder, form, change), [], expect(UP, "scale_inverted")


@fault("q8_0", "q4_0", "q4_k", "q6_k")
def gguf_scale_of_some_blocks(folder, form):
    model = m.base_model()
    path = m.write_gguf(folder / "child.gguf", model, form)
    number, encode = en.GGUF_TYPES[form]
    blocks = encode(model[DOWN])
    offset = {"q8_0": 0, "q4_0": 0, "q4_k": 0, "q6_k": 208}[form]
    changed = blocks.copy()
    half = changed[len(changed) // 2:, offset:offset + 2].copy().view(np.float16)
    changed[len(changed) // 2:, offset:offset + 2] = (half * 2).view(np.uint8)
    data = path.read_bytes()
    assert data.count(blocks.tobytes()) == 1
    path.write_bytes(data.replace(blocks.tobytes(), changed.tobytes()))
    return m.write_base(folder / "base", model), path, [], expect(DOWN, "scale_mismatch")


@fault("q8_0", "q4_0")
def gguf_scales_of_one(folder, form):
    model = m.base_model()
    path = m.write_gguf(folder / "child.gguf", model, form)
    blocks = en.GGUF_TYPES[form][1](model[DOWN])
    changed = blocks.copy()
    changed[:, 0:2] = np.array([1], dtype=np.float16).view(np.uint8)
    path.write_bytes(path.read_bytes().replace(blocks.tobytes(), changed.tobytes()))
    return m.write_base(folder / "base", model), path, [], expect(DOWN, "scale_missing")


# --------------------------------------------------------------------------- blocks


@fault()
def config_says_larger_blocks(folder):
    def change(tensors, model):
        tensors.update(m.fp8_parts(Q, model[Q], 64, 64))

    return *write_child(folder, "fp8_block", change), [], expect(Q, "block_size")


@fault("gptq", "int4_group")
def config_says_other_groups(folder, form):
    def change(tensors, model):
        if form == "gptq":
            tensors.update(m.gptq_parts(K, model[K], group=32))
        else:
            tensors.update({m.stem(K) + k: v for k, v in en.compressed_int(model[K], 32).items()})

    return *write_child(folder, form, change), [], expect(K, "block_size")


# --------------------------------------------------------------------------- zero points


@fault("int4_group_asymmetric", "int8_asymmetric")
def zero_points_left_out(folder, form):
    def change(tensors, _):
        del tensors[GATE + "_zero_point"]

    model_config = None
    return *write_child(folder, form, lambda t, mo: change(t, mo) or model_config), [], expect(GATE, "zero_point")


@fault()
def gptq_read_as_version_2(folder):
    """Zero points of version 1, which are one less than they mean, in a file that says version 2."""

    def change(tensors, model):
        tensors.update(m.gptq_parts(UP, model[UP], group=128, symmetric=False, v2=False))

    return *write_child(folder, "gptq_v2", change), [], expect(UP, "zero_point")


@fault()
def awq_zero_points_moved(folder):
    def change(tensors, model):
        codes, scales, zeros = en.grouped(model[UP], 128, 4, False, np.float16)
        tensors[m.stem(UP) + "qzeros"] = en.pack_awq((np.clip(zeros - 1, 0, 15)).T)

    return *write_child(folder, "awq", change), [], expect(UP, "zero_point")


@fault("q4_0", "q5_0")
def gguf_codes_not_centred(folder, form):
    model = m.base_model()
    path = m.write_gguf(folder / "child.gguf", model, form)
    blocks = en.GGUF_TYPES[form][1](model[O])
    changed = blocks.copy()
    if form == "q4_0":
        # As if codes were signed: the highest bit flipped.
        changed[:, 2:] ^= 0x88
    else:
        changed[:, 2:6] ^= 0xFF
    path.write_bytes(path.read_bytes().replace(blocks.tobytes(), changed.tobytes()))
    return m.write_base(folder / "base", model), path, [], expect(O, "zero_point")


# --------------------------------------------------------------------------- nibbles


@fault("nvfp4", "mxfp4", "nf4")
def nibbles_swapped(folder, form):
    def change(tensors, _):
        name = DOWN if form == "nf4" else m.stem(DOWN) + "weight_packed"
        codes = tensors[name]
        tensors[name] = ((codes >> 4) | (codes << 4)).astype(np.uint8)

    return *write_child(folder, form, change), [], expect(DOWN, "nibble_order")


@fault("int4_group", "gptq")
def nibbles_swapped_in_words(folder, form):
    def change(tensors, _):
        name = m.stem(DOWN) + ("weight_packed" if form == "int4_group" else "qweight")
        words = tensors[name].view(np.uint32)
        tensors[name] = (((words >> 4) & 0x0F0F0F0F) | ((words & 0x0F0F0F0F) << 4)).astype(np.uint32).view(np.int32)

    return *write_child(folder, form, change), [], expect(DOWN, "nibble_order")


@fault()
def awq_in_straight_order(folder):
    def change(tensors, model):
        codes, _, zeros = en.grouped(model[DOWN], 128, 4, False, np.float16)
        tensors[m.stem(DOWN) + "qweight"] = en.pack_words(codes.T)
        tensors[m.stem(DOWN) + "qzeros"] = en.pack_words(zeros.T)

    return *write_child(folder, "awq", change), [], expect(DOWN, "nibble_order")


@fault("q4_0", "q4_k")
def gguf_nibbles(folder, form):
    model = m.base_model()
    path = m.write_gguf(folder / "child.gguf", model, form)
    blocks = en.GGUF_TYPES[form][1](model[DOWN])
    changed = blocks.copy()
    begin = 2 if form == "q4_0" else 16
    changed[:, begin:] = (changed[:, begin:] >> 4) | (changed[:, begin:] << 4)
    path.write_bytes(path.read_bytes().replace(blocks.tobytes(), changed.tobytes()))
    return m.write_base(folder / "base", model), path, [], expect(DOWN, "nibble_order")


# --------------------------------------------------------------------------- plain layout


def plain_child(folder, change, form=None, model=None):
    """The base, and the same model changed before it is written (or quantised)."""
    model = model or m.base_model()
    changed = {name: value.copy() for name, value in model.items()}
    changed = change(changed) or changed
    base = m.write_base(folder / "base", model)
    if form is None:
        return base, m.write_base(folder / "child", changed)
    if form in en.GGUF_TYPES:
        return base, m.write_gguf(folder / "child.gguf", changed, form)
    tensors, config = tensors_of(changed, form)
    return base, m.write_folder(folder / "child", tensors, config)


PLAIN_AND_CODED = [None, "fp8_block", "int4_group", "nf4"]


@fault(*PLAIN_AND_CODED, "q8_0")
def square_matrix_transposed(folder, form):
    def change(model):
        model[O] = model[O].T.copy()

    return *plain_child(folder, change, form), [], expect(O, "transposed")


@fault(None, "fp8_channel")
def matrix_transposed(folder, form):
    def change(model):
        model[DOWN] = model[DOWN].T.copy()

    return *plain_child(folder, change, form), [], expect(DOWN, "transposed")


@fault(*PLAIN_AND_CODED, "q4_k")
def parameters_swapped(folder, form):
    def change(model):
        model[GATE], model[UP] = model[UP], model[GATE]

    return *plain_child(folder, change, form), [], {GATE: f"swapped_with:{UP}", UP: f"swapped_with:{GATE}"}


@fault(None, "mxfp8")
def layers_swapped(folder, form):
    other = DOWN.replace(".1.", ".0.")

    def change(model):
        model[DOWN], model[other] = model[other], model[DOWN]

    return *plain_child(folder, change, form), [], {DOWN: f"swapped_with:{other}", other: f"swapped_with:{DOWN}"}


@fault(None, "fp8_block", "gptq")
def last_rows_zero(folder, form):
    def change(model):
        model[UP][-37:] = 0

    return *plain_child(folder, change, form), [], expect(UP, "truncated")


@fault()
def rows_missing(folder):
    def change(model):
        model[UP] = model[UP][:-37].copy()

    return *plain_child(folder, change), [], expect(UP, "truncated")


@fault()
def parameter_missing(folder):
    def change(model):
        del model[V]

    return *plain_child(folder, change), [], expect(V, "part_missing")


def fused(model):
    """Gate and up as one parameter, as some engines and trainers keep them."""
    result = {}
    for name, value in model.items():
        if "gate_proj" in name:
            result[name.replace("gate_proj", "gate_up_proj")] = np.concatenate([value, model[name.replace(
                "gate_proj", "up_proj")]])
        elif "up_proj" not in name:
            result[name] = value
    return result


FUSED = GATE.replace("gate_proj", "gate_up_proj")


@fault(None, "fp8_block")
def fused_part_zero(folder, form):
    def change(model):
        model[FUSED][m.INNER:] = 0

    return *plain_child(folder, change, form, fused(m.base_model())), [], expect(FUSED, "part_missing")


@fault()
def fused_part_missing(folder):
    def change(model):
        model[FUSED] = model[FUSED][:m.INNER].copy()

    return *plain_child(folder, change, None, fused(m.base_model())), [], expect(FUSED, "part_missing")


@fault(None, "fp8_block", "int4_group")
def fused_parts_in_other_order(folder, form):
    def change(model):
        model[FUSED] = np.concatenate([model[FUSED][m.INNER:], model[FUSED][:m.INNER]])

    return *plain_child(folder, change, form, fused(m.base_model())), [], expect(FUSED, "part_order")


@fault()
def fused_parts_interleaved(folder):
    def change(model):
        both = model[FUSED].reshape(2, m.INNER, m.HIDDEN)
        model[FUSED] = both.swapaxes(0, 1).reshape(2 * m.INNER, m.HIDDEN)

    return *plain_child(folder, change, None, fused(m.base_model())), [], expect(FUSED, "part_order")


EXPERTS = f"{LAYER}mlp.experts.gate_up_proj"


def with_experts():
    model = m.base_model()
    rng = np.random.default_rng(5)
    model[EXPERTS] = en.bf16((rng.standard_normal((8, 64, 96)) * 0.02).astype(np.float32))
    return model


@fault()
def experts_in_other_order(folder):
    def change(model):
        model[EXPERTS] = model[EXPERTS][[0, 2, 1, 3, 4, 5, 7, 6]]

    return *plain_child(folder, change, None, with_experts()), [], expect(EXPERTS, "part_order")


@fault()
def expert_missing(folder):
    def change(model):
        model[EXPERTS] = model[EXPERTS][:7].copy()

    return *plain_child(folder, change, None, with_experts()), [], expect(EXPERTS, "part_missing")


@fault("q8_0", "q4_k")
def gguf_heads_not_reordered(folder, form):
    model = m.base_model()
    path = m.write_gguf(folder / "child.gguf", model, form, permute=False)
    names = {name: "part_order" for name in model if "q_proj" in name or "k_proj" in name}
    return m.write_base(folder / "base", model), path, [], names


# --------------------------------------------------------------------------- casts


@fault("bf16", "f16", "fp8")
def cast_on_the_way(folder, dtype):
    rng = np.random.default_rng(9)
    model = {name: (value * (1 + rng.random(value.shape) * 0.001)).astype(np.float32)
             for name, value in m.base_model().items()}
    changed = dict(model)
    if dtype == "bf16":
        changed[DOWN] = en.bf16(model[DOWN])
    elif dtype == "f16":
        changed[DOWN] = model[DOWN].astype(np.float16).astype(np.float32)
    else:
        changed[DOWN] = en.E4M3[en.nearest(en.E4M3, model[DOWN])].astype(np.float32)
    return (m.write_base(folder / "base", model, "f32"), m.write_base(folder / "child", changed, "f32"), [],
            expect(DOWN, "dtype_cast"))


# --------------------------------------------------------------------------- other steps


@fault(None, "fp8_block", "int8_channel")
def layer_of_the_step_before(folder, form):
    """checkpoint-100 lies beside the base; one parameter of the child was not updated since."""
    model = m.base_model(1)
    before = m.base_model(2)
    m.write_base(folder / "run" / "checkpoint-100", before)
    base = m.write_base(folder / "run" / "checkpoint-200", model)
    changed = dict(model)
    changed[K] = before[K]
    if form is None:
        child = m.write_base(folder / "child", changed)
    else:
        tensors, config = tensors_of(changed, form)
        child = m.write_folder(folder / "child", tensors, config)
    return base, child, [], expect(K, "stale")


@fault()
def stale_by_a_named_path(folder):
    model = m.base_model(1)
    before = m.base_model(2)
    old = m.write_base(folder / "elsewhere", before)
    changed = dict(model)
    changed[O] = before[O]
    return (m.write_base(folder / "base", model), m.write_base(folder / "child", changed), ["--also", str(old)],
            expect(O, "stale"))


# --------------------------------------------------------------------------- adapters


def adapter_tensors(rng, targets, model, rank):
    tensors = {}
    for name in model:
        if any(f".{target}.weight" in name for target in targets):
            module = "base_model.model." + name.removesuffix(".weight")
            rows, columns = model[name].shape
            tensors[f"{module}.lora_A.weight"] = (rng.standard_normal((rank, columns)) * 0.02).astype(np.float32)
            tensors[f"{module}.lora_B.weight"] = (rng.standard_normal((rows, rank)) * 0.02).astype(np.float32)
    return tensors


def write_adapter(folder, model, targets=("q_proj", "down_proj"), rank=8, alpha=16, **config):
    folder.mkdir(parents=True)
    tensors = adapter_tensors(np.random.default_rng(4), targets, model, rank)
    if config.get("use_dora"):
        rng = np.random.default_rng(6)
        for name in list(tensors):
            if name.endswith("lora_A.weight"):
                module = name.removesuffix(".lora_A.weight")
                base = model[module.removeprefix("base_model.model.") + ".weight"]
                length = np.linalg.norm(base, axis=1)
                tensors[module + ".lora_magnitude_vector"] = (length * (1 + 0.05 * rng.standard_normal(
                    length.shape))).astype(np.float32)
    en.write_safetensors(folder / "adapter_model.safetensors", tensors)
    (folder / "adapter_config.json").write_text(json.dumps(
        {"peft_type": "LORA", "r": rank, "lora_alpha": alpha, "target_modules": list(targets), **config}))
    return tensors


def merged(model, tensors, scale, strength=None):
    """What merging gives; `strength` multiplies the scale of some parameters."""
    result = dict(model)
    for name in tensors:
        if not name.endswith("lora_A.weight"):
            continue
        module = name.removesuffix(".lora_A.weight")
        target = module.removeprefix("base_model.model.") + ".weight"
        delta = tensors[module + ".lora_B.weight"].astype(np.float64) @ tensors[name]
        weight = model[target] + scale * (strength or {}).get(target, 1) * delta
        magnitude = tensors.get(module + ".lora_magnitude_vector")
        if magnitude is not None:
            weight *= (magnitude / np.linalg.norm(weight, axis=1))[:, None]
        result[target] = en.bf16(weight.astype(np.float32))
    return result


def adapter_pair(folder, strength=None, scale=2.0, **config):
    model = m.base_model()
    base = m.write_base(folder / "base", model)
    tensors = write_adapter(folder / "adapter", model, **config)
    child = m.write_base(folder / "merged", merged(model, tensors, scale, strength))
    return f"{base}+{folder / 'adapter'}", child


@fault(Q, DOWN)
def adapter_forgotten(folder, name):
    return *adapter_pair(folder, {name: 0}), [], expect(name, "adapter_not_merged")


@fault(0.5, 8, -1)
def adapter_too_strong(folder, factor):
    return *adapter_pair(folder, {Q: factor}), [], expect(Q, "adapter_scale")


@fault()
def adapter_of_root_merged_as_plain(folder):
    # rsLoRA divides by the root of the rank.
    names = [name for name in m.base_model() if "q_proj" in name or "down_proj" in name]
    return *adapter_pair(folder, scale=16 / 8, use_rslora=True), [], {name: "adapter_scale" for name in names}


# --------------------------------------------------------------------------- calibrated writers


@fault()
def gptq_with_compensation(folder):
    """Error compensation moves weights by steps: no rounding, and no damage."""
    model = m.base_model()
    rng = np.random.default_rng(8)

    def encode(name, weight):
        if name != UP:
            return m.gptq_parts(name, weight, group=128)
        _, scales, _ = en.grouped(weight, 128, 4, True, np.float16)
        step = scales.astype(np.float64).repeat(128, 1)
        # What compensation adds to a column: about a step, spread over the errors of the columns before.
        moved = np.clip(weight + rng.standard_normal(weight.shape) * 0.5 * step, -7.4 * step, 7.4 * step)
        return m.gptq_parts(name, moved.astype(np.float32), group=128)

    _, config, _ = m.HF_FORMATS["gptq"]
    child = m.write_folder(folder / "child", m.quantised(model, encode), config)
    return m.write_base(folder / "base", model), child, [], expect(UP, "calibrated")


@fault("strong", "slight")
def awq_with_folded_scales(folder, how):
    """Columns times a factor; the norm, or the rows of the weight, whose outputs they take, divided by it. Slight: neighbours have
    nearly the same, so that each run of a row looks like one with another scale."""
    model = m.base_model()
    child = dict(model)
    rng = np.random.default_rng(9)

    def factors_of(count):
        if how == "strong":
            return np.exp(rng.uniform(-0.7, 0.7, count)).astype(np.float32)
        return np.exp(rng.uniform(-0.15, 0.15, count // 64).repeat(64) + rng.standard_normal(count) * 0.01).astype(np.float32)

    def fold(before, weights):
        factors = factors_of(child[weights[0]].shape[1])
        child[before] = en.bf16(child[before] / (factors if child[before].ndim == 1 else factors[:, None]))
        for name in weights:
            child[name] = (child[name] * factors).astype(np.float32)
        return [before, *weights]

    named = fold(f"{LAYER}input_layernorm.weight", [Q, K, V])
    named += fold(f"{LAYER}post_attention_layernorm.weight", [UP, GATE])
    named += fold(UP, [DOWN])
    return m.write_base(folder / "base", model), m.write_quantised(folder / "child", child, "awq"), [], dict.fromkeys(named, "calibrated")


@fault()
def norm_changed_beside_folded_scales(folder):
    """A norm that no column of a weight explains has no such cause."""
    model = m.base_model()
    child = dict(model)
    factors = np.exp(np.random.default_rng(9).uniform(-0.7, 0.7, m.HIDDEN)).astype(np.float32)
    norm = f"{LAYER}input_layernorm.weight"
    child[norm] = en.bf16(child[norm] / factors[::-1])
    for name in (Q, K, V):
        child[name] = (child[name] * factors).astype(np.float32)
    return (m.write_base(folder / "base", model), m.write_quantised(folder / "child", child, "awq"), [],
            {norm: "", **dict.fromkeys((Q, K, V), "calibrated")})
