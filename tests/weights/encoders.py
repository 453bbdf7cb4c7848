"""Encoders of quantised weights, written from the public definitions of the formats with numpy alone.

Each takes a float32 matrix and returns what a file of that format holds. They share no code with msprobe's readers,
so that a wrong reading of a definition shows. `Safetensors` and `Gguf` write the files.
"""

import json
import struct

import numpy as np

# --------------------------------------------------------------------------- elements


def bf16_bits(values):
    """float32 to bfloat16, rounded to nearest even."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def bf16(values):
    """float32 values that bfloat16 holds."""
    return (bf16_bits(values).astype(np.uint32) << 16).view(np.float32).reshape(np.shape(values))


def fp8_table(exponent_bits, mantissa_bits, has_infinity):
    """All finite values of an fp8 format by code; NaN elsewhere."""
    bias = (1 << (exponent_bits - 1)) - 1
    table = np.full(256, np.nan, dtype=np.float64)
    for code in range(256):
        sign = -1.0 if code & 0x80 else 1.0
        exponent = (code >> mantissa_bits) & ((1 << exponent_bits) - 1)
        fraction = code & ((1 << mantissa_bits) - 1)
        if has_infinity and exponent == (1 << exponent_bits) - 1:
            continue
        if not has_infinity and (code & 0x7F) == 0x7F:
            continue
        if exponent == 0:
            table[code] = sign * fraction * 2.0 ** (1 - bias - mantissa_bits)
        else:
            table[code] = sign * (1 + fraction / 2.0**mantissa_bits) * 2.0 ** (exponent - bias)
    return table


E4M3 = fp8_table(4, 3, False)
E5M2 = fp8_table(5, 2, True)
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
NF4 = np.array([-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
                -0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725,
                0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941,
                0.7229568362236023, 1.0])
IQ4_NL = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], dtype=np.float64)


def nearest(table, values):
    """The code of the nearest entry; what lies outside is saturated."""
    codes = np.flatnonzero(np.isfinite(table))
    numbers = table[codes]
    order = np.argsort(numbers, kind="stable")
    codes, numbers = codes[order], numbers[order]
    numbers, first = np.unique(numbers, return_index=True)
    codes = codes[first]
    flat = np.asarray(values, dtype=np.float64).reshape(-1)
    middle = (numbers[1:] + numbers[:-1]) / 2
    return codes[np.searchsorted(middle, flat)].astype(np.uint8).reshape(np.shape(values))


def blocks_of(weight, rows, columns):
    """Largest magnitudes of blocks, and the index of each element's block."""
    height, width = weight.shape
    row = np.arange(height) // rows
    column = np.arange(width) // columns
    largest = np.zeros((row[-1] + 1, column[-1] + 1))
    np.maximum.at(largest, (row[:, None].repeat(width, 1), column[None, :].repeat(height, 0)), np.abs(weight))
    return np.maximum(largest, 1e-12), row, column


def spread(scales, row, column):
    return scales[row][:, column]


# --------------------------------------------------------------------------- Hugging Face's world


def fp8(weight, rows, columns, table=E4M3, power_of_two=None):
    """Codes and scales of blocks. power_of_two: "up" or "down" rounds scales to powers of two."""
    limit = np.nanmax(table)
    largest, row, column = blocks_of(weight, rows, columns)
    scales = largest / limit
    if power_of_two == "up":
        scales = 2.0 ** np.ceil(np.log2(scales))
    elif power_of_two == "down":
        # The OCP definition: the exponent of the largest less that of the largest code.
        scales = 2.0 ** (np.floor(np.log2(largest)) - np.floor(np.log2(limit)))
    scales = scales.astype(np.float32)
    return nearest(table, weight / spread(scales, row, column)), scales


def int8(weight, per_channel=True, divisor=127.5, dtype=np.float32):
    axis = 1 if per_channel else None
    scales = (np.abs(weight).max(axis=axis, keepdims=True) / divisor).astype(dtype)
    return np.clip(np.rint(weight / scales), -128, 127).astype(np.int8), scales


def int8_asymmetric(weight):
    low = np.minimum(weight.min(axis=1, keepdims=True), 0)
    high = np.maximum(weight.max(axis=1, keepdims=True), 0)
    scales = ((high - low) / 255).astype(np.float32)
    zero = np.clip(np.rint(-128 - low / scales), -128, 127)
    return np.clip(np.rint(weight / scales + zero), -128, 127).astype(np.int8), scales, zero.astype(np.int8)


def grouped(weight, group, bits=4, symmetric=True, dtype=np.float32):
    """Unsigned codes, scales and unsigned zero points of groups along the rows."""
    height, width = weight.shape
    count = (width + group - 1) // group
    codes = np.zeros((height, width), dtype=np.int64)
    scales = np.zeros((height, count), dtype=dtype)
    zeros = np.zeros((height, count), dtype=np.int64)
    top = (1 << bits) - 1
    for g in range(count):
        part = weight[:, g * group:(g + 1) * group]
        if symmetric:
            scale = np.abs(part).max(axis=1) / (top / 2)
            zero = np.full(height, 1 << (bits - 1))
        else:
            low = np.minimum(part.min(axis=1), 0)
            high = np.maximum(part.max(axis=1), 0)
            scale = (high - low) / top
            zero = None
        scale = np.maximum(scale, 1e-6 if dtype == np.float16 else 1e-10).astype(dtype)
        if zero is None:
            zero = np.clip(np.rint(-low / scale.astype(np.float64)), 0, top).astype(np.int64)
        scales[:, g] = scale
        zeros[:, g] = zero
        codes[:, g * group:(g + 1) * group] = np.clip(
            np.rint(part / scale[:, None].astype(np.float64)) + zero[:, None], 0, top)
    return codes, scales, zeros


def pack_words(codes, bits=4):
    """int32 words along the last axis, the first code in the lowest bits."""
    per_word = 32 // bits
    width = codes.shape[-1]
    padded = np.zeros(codes.shape[:-1] + ((width + per_word - 1) // per_word * per_word,), dtype=np.uint32)
    padded[..., :width] = codes
    words = np.zeros(padded.shape[:-1] + (padded.shape[-1] // per_word,), dtype=np.uint32)
    for i in range(per_word):
        words |= padded[..., i::per_word] << np.uint32(bits * i)
    return words.view(np.int32)


def pack_nibbles(codes, low_first=True):
    low, high = (codes[..., 0::2], codes[..., 1::2]) if low_first else (codes[..., 1::2], codes[..., 0::2])
    return (low | (high << 4)).astype(np.uint8)


def compressed_int(weight, group, bits=4, symmetric=True):
    """compressed-tensors pack-quantized."""
    codes, scales, zeros = grouped(weight, group, bits, symmetric)
    tensors = {"weight_packed": pack_words(codes, bits), "weight_scale": scales,
               "weight_shape": np.array(weight.shape, dtype=np.int64)}
    if not symmetric:
        tensors["weight_zero_point"] = pack_words(zeros.T, bits).T.copy()
    return tensors


def nvfp4(weight, group=16):
    """Codes, e4m3 scales and what the scales were multiplied by before they were rounded."""
    whole = (448.0 * 6.0) / np.abs(weight).max()
    largest, row, column = blocks_of(weight, 1, group)
    scale_codes = nearest(E4M3, largest / 6.0 * whole)
    scales = E4M3[scale_codes] / whole
    codes = nearest(E2M1, weight / np.maximum(spread(scales, row, column), 1e-30))
    return pack_nibbles(codes), scale_codes, np.float32(whole)


def mxfp4(weight, group=32):
    largest, row, column = blocks_of(weight, 1, group)
    exponent = np.clip(np.floor(np.log2(largest)) - 2, -127, 127)
    codes = nearest(E2M1, weight / spread(2.0**exponent, row, column))
    return codes, (exponent + 127).astype(np.uint8)


def gptq(weight, group, bits=4, symmetric=True, order=None, v2=False):
    """qweight, qzeros, scales, g_idx. `order`: columns in the order in which they were quantised."""
    width = weight.shape[1]
    if order is None:
        codes, scales, zeros = grouped(weight, group, bits, symmetric, np.float16)
        groups = np.arange(width) // group
    else:
        permuted, scales, zeros = grouped(weight[:, order], group, bits, symmetric, np.float16)
        codes = np.zeros_like(permuted)
        codes[:, order] = permuted
        groups = np.zeros(width, dtype=np.int64)
        groups[order] = np.arange(width) // group
    stored = zeros - (0 if v2 else 1)
    return {"qweight": pack_columns(codes, bits),
            "qzeros": pack_bits(stored.T & ((1 << bits) - 1), bits), "scales": scales.T.copy(),
            "g_idx": groups.astype(np.int32)}


def pack_bits(codes, bits):
    """A stream of codes along the last axis in int32 words; codes may cross words."""
    height, width = codes.shape
    words = np.zeros((height, (width * bits + 31) // 32), dtype=np.uint64)
    for i in range(width):
        word, shift = divmod(i * bits, 32)
        value = codes[:, i].astype(np.uint64) << np.uint64(shift)
        words[:, word] |= value & np.uint64(0xFFFFFFFF)
        if shift + bits > 32:
            words[:, word + 1] |= value >> np.uint64(32)
    return words.astype(np.uint32).view(np.int32)


def pack_columns(codes, bits):
    return pack_bits(codes, bits).T.copy()


AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def pack_awq(matrix):
    """[in, out] codes to [in, out / 8] words."""
    words = np.zeros((matrix.shape[0], matrix.shape[1] // 8), dtype=np.uint32)
    for i, place in enumerate(AWQ_ORDER):
        words |= matrix[:, place::8].astype(np.uint32) << np.uint32(4 * i)
    return words.view(np.int32)


def awq(weight, group):
    codes, scales, zeros = grouped(weight, group, 4, False, np.float16)
    return {"qweight": pack_awq(codes.T), "qzeros": pack_awq(zeros.T), "scales": scales.T.copy()}


def nf4(weight, group=64, nested=False, table=NF4, kind="nf4"):
    """bitsandbytes: the tensors beside `weight`, with its quant_state."""
    flat = weight.reshape(-1)
    largest = np.abs(flat.reshape(-1, group)).max(axis=1).astype(np.float32)
    state = {"quant_type": kind, "blocksize": group, "dtype": "bfloat16", "shape": list(weight.shape)}
    tensors = {}
    used = largest.astype(np.float64)
    if nested:
        offset = float(largest.mean())
        # A table of 256 numbers from -1 to 1, and one scale for every 256 of them.
        dynamic = np.sort(np.concatenate([np.linspace(-1, 1, 255), [0.0]])).astype(np.float32)
        dynamic[:] = np.linspace(-1, 1, 256).astype(np.float32)
        padded = np.zeros((len(largest) + 255) // 256 * 256)
        padded[:len(largest)] = largest - offset
        scale = np.maximum(np.abs(padded.reshape(-1, 256)).max(axis=1), 1e-12).astype(np.float32)
        codes = nearest(dynamic.astype(np.float64), padded / scale.repeat(256))[:len(largest)]
        used = dynamic[codes].astype(np.float64) * scale.repeat(256)[:len(largest)] + offset
        tensors["absmax"] = codes
        tensors["nested_absmax"] = scale
        tensors["nested_quant_map"] = dynamic
        state.update(nested_blocksize=256, nested_dtype="float32", nested_offset=offset)
    else:
        tensors["absmax"] = largest
    # Codes are computed from the true maxima, as the library does, not from the coded ones.
    codes = nearest(table, (flat.reshape(-1, group) / largest[:, None]).reshape(-1))
    tensors["quant_map"] = table.astype(np.float32)
    tensors[f"quant_state.bitsandbytes__{kind}"] = np.frombuffer(json.dumps(state).encode(), dtype=np.uint8)
    return pack_nibbles(codes, low_first=False).reshape(-1, 1), tensors, used


# --------------------------------------------------------------------------- GGUF


def half(values):
    return np.asarray(values, dtype=np.float32).astype(np.float16)


def q8_0(weight):
    blocks = weight.reshape(-1, 32)
    d = np.abs(blocks).max(axis=1) / 127
    inverse = np.where(d > 0, 1 / np.maximum(d, 1e-30), 0)
    codes = np.rint(blocks * inverse[:, None]).astype(np.int8)
    return np.concatenate([half(d).view(np.uint8).reshape(-1, 2), codes.view(np.uint8)], axis=1)


def signed_largest(blocks):
    at = np.abs(blocks).argmax(axis=1)
    return blocks[np.arange(len(blocks)), at]


def halves(codes):
    """The first 16 codes in the low nibbles, the others in the high ones."""
    return (codes[:, :16] | (codes[:, 16:] << 4)).astype(np.uint8)


def fifth_bits(codes):
    bits = np.zeros(len(codes), dtype=np.uint32)
    for i in range(32):
        bits |= ((codes[:, i].astype(np.uint32) >> 4) & 1) << np.uint32(i)
    return bits.view(np.uint8).reshape(-1, 4)


def q4_0(weight):
    blocks = weight.reshape(-1, 32)
    d = signed_largest(blocks) / -8
    inverse = np.where(d != 0, 1 / np.where(d == 0, 1, d), 0)
    codes = np.clip(np.floor(blocks * inverse[:, None] + 8.5), 0, 15).astype(np.uint8)
    return np.concatenate([half(d).view(np.uint8).reshape(-1, 2), halves(codes)], axis=1)


def q5_0(weight):
    blocks = weight.reshape(-1, 32)
    d = signed_largest(blocks) / -16
    inverse = np.where(d != 0, 1 / np.where(d == 0, 1, d), 0)
    codes = np.clip(np.floor(blocks * inverse[:, None] + 16.5), 0, 31).astype(np.uint8)
    return np.concatenate([half(d).view(np.uint8).reshape(-1, 2), fifth_bits(codes), halves(codes & 15)], axis=1)


def q4_1(weight):
    blocks = weight.reshape(-1, 32)
    low = blocks.min(axis=1)
    d = (blocks.max(axis=1) - low) / 15
    inverse = np.where(d > 0, 1 / np.maximum(d, 1e-30), 0)
    codes = np.clip(np.floor((blocks - low[:, None]) * inverse[:, None] + 0.5), 0, 15).astype(np.uint8)
    return np.concatenate([half(d).view(np.uint8).reshape(-1, 2), half(low).view(np.uint8).reshape(-1, 2),
                           halves(codes)], axis=1)


def q5_1(weight):
    blocks = weight.reshape(-1, 32)
    low = blocks.min(axis=1)
    d = (blocks.max(axis=1) - low) / 31
    inverse = np.where(d > 0, 1 / np.maximum(d, 1e-30), 0)
    codes = np.clip(np.floor((blocks - low[:, None]) * inverse[:, None] + 0.5), 0, 31).astype(np.uint8)
    return np.concatenate([half(d).view(np.uint8).reshape(-1, 2), half(low).view(np.uint8).reshape(-1, 2),
                           fifth_bits(codes), halves(codes & 15)], axis=1)


def iq4_nl(weight):
    blocks = weight.reshape(-1, 32)
    d = half(signed_largest(blocks) / IQ4_NL[0])
    scale = d.astype(np.float64)
    codes = nearest(IQ4_NL, blocks / np.where(scale == 0, 1, scale)[:, None])
    return np.concatenate([d.view(np.uint8).reshape(-1, 2), halves(codes)], axis=1)


def gguf_mxfp4(weight):
    codes, exponents = mxfp4(weight.reshape(-1, 32))
    return np.concatenate([exponents.reshape(-1, 1), halves(codes)], axis=1)


def sub_scales(blocks, size, top, symmetric):
    """Scales (and minima) of runs of `size` in super-blocks of 256, before they are rounded."""
    runs = blocks.reshape(len(blocks), 256 // size, size)
    if symmetric:
        return np.abs(runs).max(axis=2) / top, None
    low = np.minimum(runs.min(axis=2), 0)
    return (runs.max(axis=2) - low) / top, -low


def k_scales_mins(blocks, size, top, levels):
    scales, mins = sub_scales(blocks, size, top, False)
    d = half(scales.max(axis=1) / levels)
    dmin = half(mins.max(axis=1) / levels)
    safe_d = np.where(d.astype(np.float64) == 0, 1, d.astype(np.float64))[:, None]
    safe_m = np.where(dmin.astype(np.float64) == 0, 1, dmin.astype(np.float64))[:, None]
    s = np.clip(np.rint(scales / safe_d), 0, levels).astype(np.uint8)
    m = np.clip(np.rint(mins / safe_m), 0, levels).astype(np.uint8)
    runs = blocks.reshape(len(blocks), 256 // size, size)
    step = d.astype(np.float64)[:, None] * s
    offset = dmin.astype(np.float64)[:, None] * m
    codes = np.where(step[:, :, None] > 0,
                     np.rint((runs + offset[:, :, None]) / np.where(step == 0, 1, step)[:, :, None]), 0)
    return d, dmin, s, m, np.clip(codes, 0, top).astype(np.uint8).reshape(len(blocks), 256)


def pack_k4_scales(s, m):
    """Eight scales and eight minima of six bits in twelve bytes."""
    out = np.zeros((len(s), 12), dtype=np.uint8)
    out[:, 0:4] = s[:, 0:4] | ((s[:, 4:8] >> 4) << 6)
    out[:, 4:8] = m[:, 0:4] | ((m[:, 4:8] >> 4) << 6)
    out[:, 8:12] = (s[:, 4:8] & 15) | ((m[:, 4:8] & 15) << 4)
    return out


def q4_k(weight):
    blocks = weight.reshape(-1, 256)
    d, dmin, s, m, codes = k_scales_mins(blocks, 32, 15, 63)
    quarters = codes.reshape(-1, 4, 2, 32)
    qs = (quarters[:, :, 0] | (quarters[:, :, 1] << 4)).reshape(-1, 128)
    return np.concatenate([d.view(np.uint8).reshape(-1, 2), dmin.view(np.uint8).reshape(-1, 2),
                           pack_k4_scales(s, m), qs], axis=1)


def q5_k(weight):
    blocks = weight.reshape(-1, 256)
    d, dmin, s, m, codes = k_scales_mins(blocks, 32, 31, 63)
    quarters = codes.reshape(-1, 4, 2, 32)
    low = quarters & 15
    qs = (low[:, :, 0] | (low[:, :, 1] << 4)).reshape(-1, 128)
    qh = np.zeros((len(blocks), 32), dtype=np.uint8)
    for q in range(4):
        for h in range(2):
            qh |= ((quarters[:, q, h] >> 4) << (2 * q + h)).astype(np.uint8)
    return np.concatenate([d.view(np.uint8).reshape(-1, 2), dmin.view(np.uint8).reshape(-1, 2),
                           pack_k4_scales(s, m), qh, qs], axis=1)


def q2_k(weight):
    blocks = weight.reshape(-1, 256)
    d, dmin, s, m, codes = k_scales_mins(blocks, 16, 3, 15)
    parts = codes.reshape(-1, 2, 4, 32)
    qs = np.zeros((len(blocks), 2, 32), dtype=np.uint8)
    for j in range(4):
        qs |= (parts[:, :, j] << (2 * j)).astype(np.uint8)
    return np.concatenate([(s | (m << 4)).astype(np.uint8), qs.reshape(-1, 64), d.view(np.uint8).reshape(-1, 2),
                           dmin.view(np.uint8).reshape(-1, 2)], axis=1)


def signed_scales(blocks, top, levels):
    """Signed sub-scales of runs of 16: the largest of a run becomes the lowest code."""
    runs = blocks.reshape(len(blocks), 16, 16)
    at = np.abs(runs).argmax(axis=2)
    largest = np.take_along_axis(runs, at[:, :, None], 2)[:, :, 0]
    scales = -largest / top
    whole = signed_largest(scales)
    d = half(whole / -levels)
    safe = np.where(d.astype(np.float64) == 0, 1, d.astype(np.float64))[:, None]
    s = np.clip(np.rint(scales / safe), -levels, levels - 1).astype(np.int64)
    step = d.astype(np.float64)[:, None] * s
    codes = np.rint(runs / np.where(step == 0, 1, step)[:, :, None])
    codes = np.where(step[:, :, None] != 0, codes, 0)
    return d, s, np.clip(codes, -top, top - 1).astype(np.int64).reshape(len(blocks), 256)


def q6_k(weight):
    blocks = weight.reshape(-1, 256)
    d, s, codes = signed_scales(blocks, 32, 128)
    parts = (codes + 32).astype(np.uint8).reshape(-1, 2, 4, 32)
    ql = np.zeros((len(blocks), 2, 64), dtype=np.uint8)
    qh = np.zeros((len(blocks), 2, 32), dtype=np.uint8)
    ql[:, :, :32] = (parts[:, :, 0] & 15) | ((parts[:, :, 2] & 15) << 4)
    ql[:, :, 32:] = (parts[:, :, 1] & 15) | ((parts[:, :, 3] & 15) << 4)
    for j in range(4):
        qh |= ((parts[:, :, j] >> 4) << (2 * j)).astype(np.uint8)
    return np.concatenate([ql.reshape(-1, 128), qh.reshape(-1, 64), s.astype(np.int8).view(np.uint8),
                           d.view(np.uint8).reshape(-1, 2)], axis=1)


def q3_k(weight):
    blocks = weight.reshape(-1, 256)
    d, s, codes = signed_scales(blocks, 4, 32)
    stored = (codes + 4).astype(np.uint8)
    hmask = np.zeros((len(blocks), 32), dtype=np.uint8)
    for i in range(8):
        hmask |= ((stored[:, 32 * i:32 * i + 32] >> 2) << i).astype(np.uint8)
    parts = (stored & 3).reshape(-1, 2, 4, 32)
    qs = np.zeros((len(blocks), 2, 32), dtype=np.uint8)
    for j in range(4):
        qs |= (parts[:, :, j] << (2 * j)).astype(np.uint8)
    scales = (s + 32).astype(np.uint8)
    packed = np.zeros((len(blocks), 12), dtype=np.uint8)
    packed[:, 0:8] = (scales[:, 0:8] & 15) | ((scales[:, 8:16] & 15) << 4)
    for j in range(16):
        packed[:, 8 + j % 4] |= ((scales[:, j] >> 4) << (2 * (j // 4))).astype(np.uint8)
    return np.concatenate([hmask, qs.reshape(-1, 64), packed, d.view(np.uint8).reshape(-1, 2)], axis=1)


GGUF_TYPES = {
    "f32": (0, lambda w: w.astype(np.float32).reshape(-1).view(np.uint8)),
    "f16": (1, lambda w: half(w).reshape(-1).view(np.uint8)),
    "q4_0": (2, q4_0), "q4_1": (3, q4_1), "q5_0": (6, q5_0), "q5_1": (7, q5_1), "q8_0": (8, q8_0),
    "q2_k": (10, q2_k), "q3_k": (11, q3_k), "q4_k": (12, q4_k), "q5_k": (13, q5_k), "q6_k": (14, q6_k),
    "iq4_nl": (20, iq4_nl),
    "bf16": (30, lambda w: bf16_bits(w).reshape(-1).view(np.uint8)),
    "mxfp4": (39, gguf_mxfp4),
}


def gguf_text(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def write_gguf(path, tensors, metadata, alignment=32):
    """tensors: name -> (type, weight). metadata: name -> int (uint32), float, text or list of texts."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        head += gguf_text(key)
        if isinstance(value, bool):
            head += struct.pack("<I?", 7, value)
        elif isinstance(value, int):
            head += struct.pack("<II", 4, value)
        elif isinstance(value, float):
            head += struct.pack("<If", 6, value)
        elif isinstance(value, list):
            head += struct.pack("<IIQ", 9, 8, len(value)) + b"".join(gguf_text(item) for item in value)
        else:
            head += struct.pack("<I", 8) + gguf_text(value)
    data = b""
    infos = b""
    for name, (kind, weight) in tensors.items():
        number, encode = GGUF_TYPES[kind]
        encoded = np.ascontiguousarray(encode(np.asarray(weight, dtype=np.float32))).tobytes()
        infos += gguf_text(name) + struct.pack("<I", weight.ndim)
        infos += struct.pack(f"<{weight.ndim}Q", *reversed(weight.shape)) + struct.pack("<IQ", number, len(data))
        data += encoded + bytes(-len(encoded) % alignment)
    head += infos
    with open(path, "wb") as file:
        file.write(head + bytes(-len(head) % alignment) + data)


def permute_heads(weight, heads):
    """Rows as GGUF of the architecture "llama" has them: pairs of a rotation side by side."""
    return weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:]).swapaxes(1, 2).reshape(
        weight.shape)


# --------------------------------------------------------------------------- safetensors


class Bits:
    """Raw bits under a dtype that numpy lacks."""

    def __init__(self, dtype, bits, shape=None):
        self.dtype = dtype
        self.bits = np.ascontiguousarray(bits)
        self.shape = list(shape if shape is not None else self.bits.shape)


NAMES = {"float32": "F32", "float16": "F16", "float64": "F64", "int64": "I64", "int32": "I32", "int8": "I8",
         "uint8": "U8", "int16": "I16", "bool": "BOOL"}


def as_bf16(values):
    return Bits("BF16", bf16_bits(values), np.shape(values))


def write_safetensors(path, tensors):
    header = {}
    data = b""
    for name, tensor in tensors.items():
        if isinstance(tensor, Bits):
            dtype, shape, content = tensor.dtype, tensor.shape, tensor.bits.tobytes()
        else:
            tensor = np.asarray(tensor)
            dtype, shape, content = NAMES[tensor.dtype.name], list(tensor.shape), np.ascontiguousarray(
                tensor).tobytes()
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(content)]}
        data += content
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)
