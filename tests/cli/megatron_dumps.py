"""Dumps that the ranks of a Megatron-like model write, and those of the same model on one card.

Every tensor is made whole first; what a rank records is its part of it. So dumps of any parallelism tell of the same model.
"""
import json
import zlib

import numpy

HIDDEN, HEADS, INNER, SEQUENCE, BATCH, VOCABULARY = 16, 4, 32, 16, 2, 24


class Sizes:
    def __init__(self, tp=1, cp=1, dp=1, pp=1, vpp=1, layers=8, sequence_parallel=False):
        self.tp, self.cp, self.dp, self.pp, self.vpp, self.layers, self.sequence_parallel = tp, cp, dp, pp, vpp, layers, sequence_parallel
        self.ranks = tp * cp * dp * pp

    def place(self, rank):  # order tp-cp-ep-dp-pp
        return rank % self.tp, rank // self.tp % self.cp, rank // (self.tp * self.cp) % self.dp, rank // (self.tp * self.cp * self.dp)


def whole(name, shape, sample):
    """The tensor of that name: the same for every parallelism; activations depend on the sample."""
    seed = zlib.crc32(("%s %s" % (name, sample)).encode())
    return numpy.random.default_rng(seed).standard_normal(shape).astype(numpy.float32)


def described(values, requires_grad=False):
    if values.dtype.kind == "i":
        stats = [int(values.max()), int(values.min()), float(values.mean()), float(numpy.linalg.norm(values.astype(numpy.float64)))]
    else:
        stats = [float(values.max()), float(values.min()), float(values.mean(dtype=numpy.float64)), float(numpy.linalg.norm(values.astype(numpy.float64)))]
    return {"type": "torch.Tensor", "dtype": "torch." + str(values.dtype), "shape": list(values.shape),
            **dict(zip(("Max", "Min", "Mean", "Norm"), stats)), "requires_grad": requires_grad}


class Rank:
    def __init__(self, sizes, rank):
        self.sizes, self.rank = sizes, rank
        self.t, self.c, self.d, self.p = sizes.place(rank)
        self.data, self.construct, self.counts = {}, {}, {}

    # Parts of whole tensors.
    def sequence(self, x):  # the part of the context-parallel rank, first dimension
        return numpy.split(x, self.sizes.cp)[self.c]

    def features(self, x, axis=-1):
        return numpy.split(x, self.sizes.tp, axis)[self.t]

    def outside(self, x):  # between the layers that tensor parallelism splits
        x = self.sequence(x)
        return numpy.split(x, self.sizes.tp)[self.t] if self.sizes.sequence_parallel else x

    # What is recorded.
    def add(self, name, parent, inputs, outputs, parameters=None, kwargs=None):
        one = lambda x: described(x) if isinstance(x, numpy.ndarray) else x  # noqa: E731
        entry = {"input_args": [one(x) for x in inputs], "input_kwargs": kwargs or {}, "output": [one(x) for x in outputs]}
        if ".backward." in name or name.endswith(".backward"):
            entry = {"input": entry["input_args"], "output": entry["output"]}
        if parameters:
            entry["parameters"] = {key: described(x, True) for key, x in parameters.items()}
        self.data[name] = entry
        self.construct[name] = parent

    def call(self, api, parent, inputs, outputs, kwargs=None):
        number = self.counts.get(api, 0)
        self.counts[api] = number + 1
        self.add("%s.%d.forward" % (api, number), parent, inputs, outputs, kwargs=kwargs)

    def group(self, kind):
        sizes, ranks = self.sizes, []
        for other in range(sizes.ranks):
            t, c, d, p = sizes.place(other)
            if kind == "tp" and (c, d, p) == (self.c, self.d, self.p) or kind == "cp" and (t, d, p) == (self.t, self.d, self.p):
                ranks.append(other)
        return {"group": {"type": "torch.ProcessGroup", "group_ranks": ranks, "group_id": "%s%d" % (kind, ranks[0])}}

    def column(self, path, kind_parent, x, weight, y):
        name = "%s.ColumnParallelLinear.forward.0" % path
        w = self.features(weight, 0)
        full = self.sequence(x)
        if self.sizes.sequence_parallel and self.sizes.tp > 1:
            self.call("Distributed._all_gather_base", name, [full, self.outside(x)], [full], self.group("tp"))
        self.call("Torch.matmul", name, [full, numpy.ascontiguousarray(w.T)], [self.features(self.sequence(y))])
        self.add(name, kind_parent, [self.outside(x)], [self.features(self.sequence(y)), None], {"weight": w})

    def row(self, path, kind_parent, x, weight, y):
        name = "%s.RowParallelLinear.forward.0" % path
        w = self.features(weight, 1)
        part, own = self.sequence(y), self.features(self.sequence(x))
        if self.sizes.tp > 1:
            pieces = whole(path + ".pieces", (self.sizes.tp,) + part.shape, (self.d, self.c))
            partial = (pieces - pieces.mean(0))[self.t] + part / self.sizes.tp
            partial = partial.astype(numpy.float32)
        else:
            partial = part
        self.call("Torch.matmul", name, [own, numpy.ascontiguousarray(w.T)], [partial])
        if self.sizes.tp > 1 and self.sizes.sequence_parallel:
            self.call("Distributed._reduce_scatter_base", name, [self.outside(y), partial], [self.outside(y)], self.group("tp"))
        elif self.sizes.tp > 1:
            self.call("Distributed.all_reduce", name, [partial], [part], self.group("tp"))
        self.add(name, kind_parent, [own], [self.outside(y), None], {"weight": w})

    def layer(self, chunk, local, number):
        at = "Module.%d.module.decoder.layers.%d" % (chunk, local)
        top = "layer%d" % number
        sample = self.d
        act = lambda n, width=HIDDEN: whole("%s.%s" % (top, n), (SEQUENCE, BATCH, width), sample)  # noqa: E731
        weight = lambda n, shape: whole("%s.%s" % (top, n), shape, "weight")  # noqa: E731
        stream_in = whole("stream%d" % number, (SEQUENCE, BATCH, HIDDEN), sample)
        stream_out = whole("stream%d" % (number + 1), (SEQUENCE, BATCH, HIDDEN), sample)
        layer = "%s.TransformerLayer.forward.0" % at
        attention = "%s.self_attention.SelfAttention.forward.0" % at
        core = "%s.self_attention.core_attention.DotProductAttention.forward.0" % at
        mlp = "%s.mlp.MLP.forward.0" % at
        norm1, qkv, context, attended = act("norm1"), act("qkv", 3 * HIDDEN), act("context"), act("attended")
        norm2, inner, active = act("norm2"), act("inner", INNER), act("active", INNER)
        self.add("%s.input_layernorm.LayerNorm.forward.0" % at, layer, [self.outside(stream_in)], [self.outside(norm1)], {"weight": weight("ln1", (HIDDEN,))})
        self.column(at + ".self_attention.linear_qkv", attention, norm1, weight("wqkv", (3 * HIDDEN, HIDDEN)), qkv)
        joined = self.features(self.sequence(qkv).reshape(-1, BATCH, HEADS, 3 * HIDDEN // HEADS), 2)
        self.call("Tensor.view", attention, [self.features(self.sequence(qkv))], [joined])
        heads, keys, values = numpy.split(joined, 3, 3)
        self.call("Torch.split", attention, [joined], [heads, keys, values])
        if self.sizes.cp > 1:
            for _ in range(self.sizes.cp - 1):
                self.call("Distributed.all_gather", core, [heads], [heads], self.group("cp"))
        mixed = self.features(self.sequence(context).reshape(-1, BATCH, HEADS, HIDDEN // HEADS), 2)
        self.call("Functional.scaled_dot_product_attention", core, [heads, keys, values], [mixed])
        self.call("Tensor.reshape", core, [mixed], [self.features(self.sequence(context))])
        self.add(core, attention, [heads, keys, values], [self.features(self.sequence(context))])
        self.row(at + ".self_attention.linear_proj", attention, context, weight("wproj", (HIDDEN, HIDDEN)), attended)
        self.add(attention, layer, [self.outside(norm1)], [self.outside(attended), None])
        self.add("%s.pre_mlp_layernorm.LayerNorm.forward.0" % at, layer, [self.outside(attended)], [self.outside(norm2)], {"weight": weight("ln2", (HIDDEN,))})
        self.column(at + ".mlp.linear_fc1", mlp, norm2, weight("wfc1", (INNER, HIDDEN)), inner)
        self.call("Functional.gelu", mlp, [self.features(self.sequence(inner))], [self.features(self.sequence(active))])
        self.row(at + ".mlp.linear_fc2", mlp, active, weight("wfc2", (HIDDEN, INNER)), act("out"))
        self.add(mlp, layer, [self.outside(norm2)], [self.outside(act("out")), None])
        self.call("Torch.add", layer, [self.outside(stream_in), self.outside(act("out"))], [self.outside(stream_out)])
        self.add(layer, "Module.%d.module.decoder.TransformerBlock.forward.0" % chunk, [self.outside(stream_in)], [self.outside(stream_out)])

    def layer_backward(self, chunk, local, number):
        at = "Module.%d.module.decoder.layers.%d" % (chunk, local)
        grad = lambda n: whole("grad%d" % n, (SEQUENCE, BATCH, HIDDEN), self.d)  # noqa: E731
        layer = "%s.TransformerLayer.backward.0" % at
        block = "Module.%d.module.decoder.TransformerBlock.backward.0" % chunk
        mlp, attention = "%s.mlp.MLP.backward.0" % at, "%s.self_attention.SelfAttention.backward.0" % at
        between = whole("between%d" % number, (SEQUENCE, BATCH, HIDDEN), self.d)
        self.add("%s.mlp.linear_fc2.RowParallelLinear.backward.0" % at, mlp, [self.outside(grad(number + 1))],
                 [self.features(self.sequence(whole("gact%d" % number, (SEQUENCE, BATCH, INNER), self.d)))])
        self.add("%s.mlp.linear_fc1.ColumnParallelLinear.backward.0" % at, mlp,
                 [self.features(self.sequence(whole("ginner%d" % number, (SEQUENCE, BATCH, INNER), self.d)))], [self.outside(between)])
        self.add(mlp, layer, [self.outside(grad(number + 1))], [self.outside(between)])
        self.add(attention, layer, [self.outside(between)], [self.outside(grad(number))])
        self.add(layer, block, [self.outside(grad(number + 1))], [self.outside(grad(number))])

    def record(self):
        sizes = self.sizes
        per = sizes.layers // sizes.pp // sizes.vpp
        chunks = [(chunk, (chunk * sizes.pp + self.p) * per) for chunk in range(sizes.vpp)]
        stream = lambda n: whole("stream%d" % n, (SEQUENCE, BATCH, HIDDEN), self.d)  # noqa: E731
        for chunk, first in chunks:
            model = "Module.%d.module.GPTModel.forward.0" % chunk
            block = "Module.%d.module.decoder.TransformerBlock.forward.0" % chunk
            tokens = numpy.abs(whole("tokens", (BATCH, SEQUENCE), self.d) * 8).astype(numpy.int64)
            tokens = numpy.split(tokens, sizes.cp, 1)[self.c]
            if first > 0:
                self.join("recv", "src", -1, self.outside(stream(first)))
            if first == 0:
                embedding = "Module.%d.module.embedding.LanguageModelEmbedding.forward.0" % chunk
                table = self.features(whole("table", (VOCABULARY, HIDDEN), "weight"), 0)
                self.add("Module.%d.module.embedding.word_embeddings.VocabParallelEmbedding.forward.0" % chunk, embedding, [tokens], [self.outside(stream(0))], {"weight": table})
                self.add(embedding, model, [tokens], [self.outside(stream(0))])
            for k in range(per):
                self.layer(chunk, k, first + k)
            if first + per == sizes.layers:
                self.add("Module.%d.module.decoder.final_layernorm.LayerNorm.forward.0" % chunk, block, [self.outside(stream(sizes.layers))], [self.outside(whole("final", (SEQUENCE, BATCH, HIDDEN), self.d))], {"weight": whole("lnf", (HIDDEN,), "weight")})
                end = whole("final", (SEQUENCE, BATCH, HIDDEN), self.d)
            else:
                end = stream(first + per)
            self.add(block, model, [self.outside(stream(first)) if first == 0 else None], [self.outside(end)])
            if first + per == sizes.layers:
                logits = whole("logits", (SEQUENCE, BATCH, VOCABULARY), self.d)
                self.column("Module.%d.module.output_layer" % chunk, model, end, whole("table", (VOCABULARY, HIDDEN), "weight"), logits)
                self.add(model, None, [tokens], [self.features(self.sequence(logits))])
                loss = whole("loss", (1,), self.d)
                self.call("Torch.mean", None, [self.features(self.sequence(logits))], [loss])
                self.call("Torch.mul", None, [loss], [loss])
            else:
                self.add(model, None, [tokens], [self.outside(end)])
                self.join("send", "dst", 1, self.outside(end))
        for chunk, first in reversed(chunks):
            grad = lambda n: whole("grad%d" % n, (SEQUENCE, BATCH, HIDDEN), self.d)  # noqa: E731,B023
            if first + per < sizes.layers:
                self.join("recv", "src", 1, self.outside(grad(first + per)))
            for k in reversed(range(per)):
                self.layer_backward(chunk, k, first + k)
            self.add("Module.%d.module.decoder.TransformerBlock.backward.0" % chunk, None, [self.outside(grad(first + per))], [self.outside(grad(first))])
            if first > 0:
                self.join("send", "dst", -1, self.outside(grad(first)))
        return self

    def join(self, kind, key, step, values):
        """A send to the stage behind (1) or in front (-1), or what comes from there."""
        peer = (self.rank + step * self.sizes.ranks // self.sizes.pp) % self.sizes.ranks
        given, made = (values, None) if kind == "send" else (numpy.zeros_like(values), values)
        self.call("Distributed." + kind, None, [given], [made], {key: {"type": "int", "value": peer}})

    def write(self, folder):
        folder.mkdir(parents=True)
        (folder / "construct.json").write_text(json.dumps(self.construct))
        (folder / "dump.json").write_text(json.dumps({"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None, "data": self.data}))
        (folder / "stack.json").write_text(json.dumps({name: ["File a.py, line 1, in f, \n x"] for name in self.data}))


def write_run(folder, sizes, change=None):
    """change(name, entry): called for every entry before it is written."""
    for number in range(sizes.ranks):
        rank = Rank(sizes, number).record()
        for name, entry in rank.data.items() if change else ():
            change(name, entry)
        rank.write(folder / ("rank%d" % number))
