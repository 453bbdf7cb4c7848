#!/usr/bin/env python3
"""Makes two large checkpoints in Megatron's layout for benchmarks of `msprobe ckpt_compare`. Needs the standard library only.

  make_checkpoints.py OUT [--mb 1024] [--tp 2] [--pp 2] [--dtype float32|bfloat16] [--optimizer]

Writes OUT/a and OUT/b, which differ in every 97th element of each mebibyte. --mb is the size of one model; --optimizer adds
three float32 values per parameter, as Adam keeps them.
"""
import argparse
import array
import collections
import io
import os
import pickle
import random
import sys
import types
import zipfile

BLOCK_BYTES = 1 << 20
TORCH = types.ModuleType("torch")
TORCH_UTILS = types.ModuleType("torch._utils")


def named(module, name):
    """A class that a pickle shows as module.name."""
    made = type(name, (), {"__module__": module.__name__})
    setattr(module, name, made)
    return made


class Storage:
    """The bytes behind one tensor."""

    def __init__(self, kind, elements, block, rotation):
        self.kind = kind
        self.elements = elements
        self.block = block
        self.rotation = rotation % len(block) // 64 * 64

    def size_bytes(self):
        return self.elements * (2 if self.kind is BFLOAT16 else 4)

    def chunks(self):
        left = self.size_bytes()
        chunk = self.block[self.rotation:]
        while left > 0:
            chunk = chunk[:left]
            left -= len(chunk)
            yield chunk
            chunk = self.block


class Tensor:
    def __init__(self, storage, shape):
        self.storage = storage
        self.shape = shape

    def __reduce__(self):
        strides, step = [], 1
        for size in reversed(self.shape):
            strides.insert(0, step)
            step *= size
        return REBUILD, (self.storage, 0, tuple(self.shape), tuple(strides), False, collections.OrderedDict())


class TorchPickler(pickle.Pickler):
    def __init__(self, stream):
        super().__init__(stream, protocol=2)
        self.storages = []

    def persistent_id(self, obj):
        if not isinstance(obj, Storage):
            return None
        self.storages.append(obj)
        return ("storage", obj.kind, str(len(self.storages) - 1), "cpu", obj.elements)


FLOAT32 = named(TORCH, "FloatStorage")
BFLOAT16 = named(TORCH, "BFloat16Storage")
REBUILD = named(TORCH_UTILS, "_rebuild_tensor_v2")


def write_pt(path, state):
    stream = io.BytesIO()
    pickler = TorchPickler(stream)
    pickler.dump(state)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/data.pkl", stream.getvalue())
        for key, storage in enumerate(pickler.storages):
            with archive.open("archive/data/%d" % key, "w", force_zip64=True) as member:
                for chunk in storage.chunks():
                    member.write(chunk)
        archive.writestr("archive/version", "3\n")


def noise_block(dtype, changed):
    generator = random.Random(0)
    some = array.array("f", (generator.gauss(0, 0.02) for _ in range(8192)))
    count = BLOCK_BYTES // (4 if dtype is FLOAT32 else 2)
    values = some * (count // len(some))
    if changed:
        for i in range(0, count, 97):
            values[i] *= 1.25
    if dtype is FLOAT32:
        return values.tobytes()
    bits = array.array("I")
    bits.frombytes(values.tobytes())
    return array.array("H", (b >> 16 for b in bits)).tobytes()


def rank_shapes(hidden, vocabulary, layers, tp, first, last):
    """Names and shapes of what one rank holds."""
    feed_forward = 4 * hidden
    shapes = [("embedding.word_embeddings.weight", (vocabulary // tp, hidden))] if first else []
    for layer in range(layers):
        prefix = "decoder.layers.%d." % layer
        shapes += [(prefix + "input_layernorm.weight", (hidden,)),
                   (prefix + "self_attention.linear_qkv.weight", (3 * hidden // tp, hidden)),
                   (prefix + "self_attention.linear_proj.weight", (hidden, hidden // tp)),
                   (prefix + "pre_mlp_layernorm.weight", (hidden,)),
                   (prefix + "mlp.linear_fc1.weight", (feed_forward // tp, hidden)),
                   (prefix + "mlp.linear_fc2.weight", (hidden, feed_forward // tp))]
    if last:
        shapes += [("decoder.final_layernorm.weight", (hidden,)), ("output_layer.weight", (vocabulary // tp, hidden))]
    return shapes


def product(shape):
    count = 1
    for size in shape:
        count *= size
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--mb", type=int, default=1024)
    parser.add_argument("--tp", type=int, default=2)
    parser.add_argument("--pp", type=int, default=2)
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--optimizer", action="store_true")
    options = parser.parse_args()
    sys.modules.update({"torch": TORCH, "torch._utils": TORCH_UTILS})
    dtype = FLOAT32 if options.dtype == "float32" else BFLOAT16
    hidden = 1024 if options.mb >= 256 else 256
    vocabulary = 16 * hidden
    element_bytes = 4 if dtype is FLOAT32 else 2
    layer_bytes = 12 * hidden * hidden * element_bytes
    stage_layers = max(1, (options.mb * 2**20 - 2 * vocabulary * hidden * element_bytes) // layer_bytes // options.pp)
    arguments = argparse.Namespace(tensor_model_parallel_size=options.tp, pipeline_model_parallel_size=options.pp,
                                   expert_model_parallel_size=1, num_experts=None, num_layers=stage_layers * options.pp,
                                   hidden_size=hidden)
    for side in "ab":
        block = noise_block(dtype, side == "b")
        states = noise_block(FLOAT32, side == "b")
        for stage in range(options.pp):
            shapes = rank_shapes(hidden, vocabulary, stage_layers, options.tp, stage == 0, stage == options.pp - 1)
            for rank in range(options.tp):
                # Parameters that every tensor rank holds must be the same on all of them.
                model = collections.OrderedDict(
                    (name, Tensor(Storage(dtype, product(shape), block, 0 if len(shape) == 1 else at * 4096), shape))
                    for at, (name, shape) in enumerate(shapes))
                state = {"args": arguments, "checkpoint_version": 3.0, "iteration": 1, "model": model}
                if options.optimizer:
                    state["optimizer"] = {
                        kind: {at: Tensor(Storage(FLOAT32, product(shape), states, at * 4096), shape)
                               for at, (_, shape) in enumerate(shapes)}
                        for kind in ("exp_avg", "exp_avg_sq", "master")}
                folder = "mp_rank_%02d" % rank + ("_%03d" % stage if options.pp > 1 else "")
                folder = os.path.join(options.out, side, "iter_0000001", folder)
                os.makedirs(folder, exist_ok=True)
                write_pt(os.path.join(folder, "model_optim_rng.pt"), state)
        with open(os.path.join(options.out, side, "latest_checkpointed_iteration.txt"), "w", encoding="ascii") as tracker:
            tracker.write("1")
    print("%d layers of hidden size %d" % (stage_layers * options.pp, hidden))


if __name__ == "__main__":
    main()
