"""Digests of weights: one model in 20 layouts has one digest, and 40 planted faults are named with the right parameter and rows.

    python3 digests_test.py MSPROBE_PROGRAM [layouts|faults|howto]

Ranks are made in one process: `layout` says of each what it holds. Needs PyTorch (of any version from 1.13 on) and PYTHONPATH with msprobe.
"""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

try:
    import torch
except ImportError:
    sys.exit(77)

import msprobe.weights

HIDDEN, HEADS, GROUPS, HEAD, INNER, VOCABULARY, LAYERS, EXPERTS = 64, 8, 4, 8, 160, 200, 3, 4
MODEL = {"attention_heads": HEADS, "query_groups": GROUPS}


def make_model(seed=1, dtype=torch.bfloat16):
    """{name: tensor} as Hugging Face calls them; layer 2 has experts."""
    generator = torch.Generator().manual_seed(seed)
    shapes = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN), "lm_head.weight": (VOCABULARY, HIDDEN), "model.norm.weight": (HIDDEN,)}
    for layer in range(LAYERS):
        base = "model.layers.%d." % layer
        shapes.update({base + "input_layernorm.weight": (HIDDEN,), base + "post_attention_layernorm.weight": (HIDDEN,),
                       base + "self_attn.q_proj.weight": (HEADS * HEAD, HIDDEN), base + "self_attn.k_proj.weight": (GROUPS * HEAD, HIDDEN),
                       base + "self_attn.v_proj.weight": (GROUPS * HEAD, HIDDEN), base + "self_attn.o_proj.weight": (HIDDEN, HEADS * HEAD)})
        for expert in ["experts.%d." % e for e in range(EXPERTS)] if layer == 2 else [""]:
            shapes.update({base + "mlp." + expert + "gate_proj.weight": (INNER, HIDDEN), base + "mlp." + expert + "up_proj.weight": (INNER, HIDDEN),
                           base + "mlp." + expert + "down_proj.weight": (HIDDEN, INNER)})
        if layer == 2:
            shapes[base + "mlp.gate.weight"] = (EXPERTS, HIDDEN)
    return {name: torch.randn(shape, generator=generator).to(dtype) for name, shape in shapes.items()}


def write_safetensors(tensors, path):
    names = {torch.bfloat16: "BF16", torch.float32: "F32", torch.float16: "F16", torch.float64: "F64"}
    header, body = {}, b""
    for name, tensor in tensors.items():
        tensor = tensor.contiguous()
        bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
        data = tensor.view(bits).numpy().tobytes()
        header[name] = {"dtype": names[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


# ---- layouts: each takes the model and a folder, and returns what ckpt_compare reads ----

def ranks(folder, held, records, dtype=None, model=None):
    """One digest for each rank."""
    for rank, (tensors, record) in enumerate(zip(held, records)):
        record = dict(record, rank=rank, world_size=len(held))
        record["model"] = dict(record.get("model") or {}, **(model or {}))
        msprobe.weights.digest(tensors, folder, layout=record, dtype=dtype)
    return folder


def cut_dim(name):
    """As tensor parallelism cuts; None: on every rank."""
    if name.endswith(("o_proj.weight", "down_proj.weight")):
        return 1
    return None if "norm" in name or name.endswith("mlp.gate.weight") else 0


def cut(model, parts, dim_of, uneven=False):
    held, records = [], []
    for part in range(parts):
        tensors, parameters = {}, {}
        for name, tensor in model.items():
            dim = dim_of(name)
            if dim is None:
                tensors[name] = tensor
                continue
            pieces = tensor.chunk(parts, dim)
            tensors[name] = pieces[part].contiguous() if part < len(pieces) else tensor.narrow(dim, 0, 0)
            parameters[name] = {"kind": "shard", "dim": dim, "part": part, "parts": parts, "global_shape": list(tensor.shape)}
            if uneven:
                parameters[name]["part_sizes"] = [piece.shape[dim] for piece in pieces] + [0] * (parts - len(pieces))
        held.append(tensors)
        records.append({"parameters": parameters})
    return held, records


def flat(model, parts):
    """As FSDP1 and ZeRO 3 cut: anywhere."""
    held, records = [{} for _ in range(parts)], [{"parameters": {}} for _ in range(parts)]
    everything = sum(tensor.numel() for tensor in model.values())
    size, at = -(-everything // parts), 0
    for name, tensor in model.items():
        for part in range(parts):
            first, end = max(part * size - at, 0), min((part + 1) * size - at, tensor.numel())
            first, end = (first, end) if first < end else (0, 0)
            held[part][name] = tensor.reshape(-1)[first:end].clone()
            records[part]["parameters"][name] = {"kind": "shard", "flat": [first, end], "global_shape": list(tensor.shape)}
        at += tensor.numel()
    return held, records


def fused(model):
    """As vLLM holds it: query, key, value joined, gate and up joined, experts stacked."""
    held = {}
    for name, tensor in model.items():
        base, _, last = name.rpartition("_proj.weight")[0].rpartition(".")
        if last == "q":
            held[base + ".qkv_proj.weight"] = torch.cat([model[base + ".%s_proj.weight" % one] for one in "qkv"])
        elif last == "gate":
            held[base + ".gate_up_proj.weight"] = torch.cat([tensor, model[base + ".up_proj.weight"]])
        elif last not in ("k", "v", "up"):
            held[name] = tensor
    for layer in range(LAYERS):
        base = "model.layers.%d.mlp.experts." % layer
        if base + "0.gate_up_proj.weight" in held:
            held[base + "w13_weight"] = torch.stack([held.pop(base + "%d.gate_up_proj.weight" % e) for e in range(EXPERTS)])
            held[base + "w2_weight"] = torch.stack([held.pop(base + "%d.down_proj.weight" % e) for e in range(EXPERTS)])
    return held


def padded(model, rows, value=7.0):
    held = dict(model)
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        held[name] = torch.cat([model[name], torch.full((rows, HIDDEN), value, dtype=model[name].dtype)])
    return held


MEGATRON = (("model.embed_tokens", "embedding.word_embeddings"), ("lm_head", "output_layer"), ("model.norm", "decoder.final_layernorm"),
            ("model.layers", "decoder.layers"), ("post_attention_layernorm", "pre_mlp_layernorm"), ("self_attn.o_proj", "self_attention.linear_proj"),
            ("mlp.gate.", "mlp.router."), ("mlp.experts", "mlp.experts.local_experts"), ("down_proj", "linear_fc2"))


def megatron(model):
    """Megatron-core's names; query, key and value by query groups, gate and up joined."""
    held = {}
    for name, tensor in model.items():
        new = name
        for old, to in MEGATRON:
            new = new.replace(old, to)
        base = name[:name.rfind(".", 0, name.rfind("_proj"))] if "_proj" in name else ""
        own = new[:new.rfind(".", 0, new.rfind("_proj"))] if "_proj" in new else ""
        if name.endswith("q_proj.weight"):
            q, k, v = (model[base + ".%s_proj.weight" % one].reshape(GROUPS, -1, HIDDEN) for one in "qkv")
            held[own.replace("self_attn", "self_attention") + ".linear_qkv.weight"] = torch.cat([q, k, v], 1).reshape(-1, HIDDEN)
        elif name.endswith("gate_proj.weight"):
            held[own + ".linear_fc1.weight"] = torch.cat([tensor, model[base + ".up_proj.weight"]])
        elif not name.endswith(("k_proj.weight", "v_proj.weight", "up_proj.weight")):
            held[new] = tensor
    return held


def megatron_dim(name):
    if name.endswith(("linear_proj.weight", "linear_fc2.weight")):
        return 1
    return None if "layernorm" in name or "router" in name else 0


def with_blocks(held, records, names, parts):
    """Of fused parameters every rank has its part of each block."""
    whole = held
    tensors, parameters = [dict(one) for one in records[0]], records[1]
    for part in range(parts):
        for name, sizes in names.items():
            mine = [block.chunk(parts)[part] for block in whole[name].split(sizes)]
            tensors[part][name] = torch.cat(mine)
            parameters[part]["parameters"][name]["blocks"] = sizes
    return tensors, parameters


def stages(model, folder):
    """Two stages of a pipeline, whose layers count from 0."""
    held, records = [], []
    for stage, layers in enumerate(((0, 1), (2,))):
        tensors, names = {}, {}
        for name, tensor in model.items():
            number = int(name.split(".")[2]) if ".layers." in name else -1
            if number in layers:
                local = layers.index(number)
                tensors[name.replace("layers.%d." % number, "layers.%d." % local)] = tensor
                names["decoder.layers.%d" % local] = "decoder.layers.%d" % number
            elif number < 0 and (stage == 0) == ("embedding" in name):
                tensors[name] = tensor
        held.append(tensors)
        records.append({"layers": names})
    return ranks(folder, held, records, model=dict(MODEL, gated=True))


def expert_ranks(model, folder):
    held, records = [], []
    base = "model.layers.2.mlp.experts."
    for rank in range(2):
        mine = [e for e in range(EXPERTS) if e % 2 == rank]
        tensors = {name: tensor for name, tensor in model.items() if not name.startswith(base)}
        for local, number in enumerate(mine):
            for one in ("gate_proj", "up_proj", "down_proj"):
                tensors["%s%d.%s.weight" % (base, local, one)] = model["%s%d.%s.weight" % (base, number, one)]
        held.append(tensors)
        records.append({"experts": {base + str(local): number for local, number in enumerate(mine)}})
    return ranks(folder, held, records)


def two_cuts(model, folder):
    """Tensor parallelism and FSDP2 on one dimension or on two."""
    held, records = [], []
    for tp in range(2):
        for dp in range(3):
            tensors, parameters = {}, {}
            for name, tensor in model.items():
                cuts, part = [], tensor
                if cut_dim(name) is not None:
                    part = part.chunk(2, cut_dim(name))[tp]
                    cuts.append({"kind": "shard", "dim": cut_dim(name), "part": tp, "parts": 2})
                chunks = part.chunk(3, 0)
                part = chunks[dp] if dp < len(chunks) else part.narrow(0, 0, 0)
                cuts.append({"kind": "shard", "dim": 0, "part": dp, "parts": 3})
                tensors[name] = part.clone()
                parameters[name] = {"kind": "shard", "placements": cuts, "global_shape": list(tensor.shape)}
            held.append(tensors)
            records.append({"parameters": parameters})
    return ranks(folder, held, records)


def shuffled(model):
    names = list(model)
    random.Random(3).shuffle(names)
    return {name: model[name] for name in names}


def turned(model):
    """The same values behind other strides."""
    return {name: tensor.t().contiguous().t() if tensor.dim() == 2 else torch.stack([tensor, tensor], 1)[:, 0] for name, tensor in model.items()}


class Files:
    def __init__(self, program):
        self.program = program

    def run(self, *arguments, expect=0):
        done = subprocess.run([self.program, *arguments], capture_output=True, text=True)
        assert done.returncode == expect, (arguments, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def digest_file(self, tensors, folder, *flags):
        os.makedirs(folder)
        write_safetensors(tensors, folder + "/model.safetensors")
        self.run("digest", folder + "/model.safetensors", "-o", folder + "/digest.json", "-q", *flags)
        return folder + "/digest.json"

    def shards(self, tensors, folder):
        os.makedirs(folder)
        names = list(tensors)
        for number in range(2):
            write_safetensors({name: tensors[name] for name in names[number::2]}, "%s/model-%05d-of-00002.safetensors" % (folder, number + 1))
        return folder

    def compare(self, a, b, folder, expect=0, *flags):
        out = os.path.join(folder, "out.json")
        self.run("ckpt_compare", a, b, "-o", out, "--format", "json", "-q", "--force", *flags, expect=expect)
        with open(os.path.join(folder, "out_details.json")) as file:
            return json.load(file)


def all_layouts(files, model, folder):
    """{name: what ckpt_compare reads}"""
    at = lambda name: os.path.join(folder, name)
    wide = {name: tensor.float() for name, tensor in model.items()}
    noisy = {name: tensor + tensor.abs() * 2.0 ** -11 * (torch.arange(tensor.numel()).reshape(tensor.shape) % 2) for name, tensor in wide.items()}
    joined, core = fused(model), megatron(model)
    qkv = {name: [HEADS * HEAD, GROUPS * HEAD, GROUPS * HEAD] for name in joined if "qkv" in name}
    gates = {name: [INNER, INNER] for name in joined if "gate_up" in name}
    fc1 = {name: [INNER, INNER] for name in core if "linear_fc1" in name}
    stacked = {name: tensor for name, tensor in joined.items() if "w13" not in name and "w2_" not in name}
    experts = {name: tensor for name, tensor in fused(model).items() if name not in stacked}
    tp2 = with_blocks(stacked, cut(stacked, 2, cut_dim), dict(qkv, **gates), 2)
    for tensors in tp2[0]:
        tensors.update(experts)
    return {
        "live": ranks(at("live"), [model], [{}]),
        "file": files.digest_file(model, at("file")),
        "shards of files, not digested": files.shards(model, at("shards")),
        "float32": ranks(at("float32"), [wide], [{}]),
        "float64": ranks(at("float64"), [{name: tensor.double() for name, tensor in model.items()}], [{}]),
        "rounded to bfloat16": ranks(at("rounded"), [noisy], [{}], dtype=torch.bfloat16),
        "rounded file": files.digest_file(noisy, at("rounded_file"), "--dtype", "bfloat16"),
        "tensor parallel 2": ranks(at("tp2"), *cut(model, 2, cut_dim)),
        "tensor parallel 4": ranks(at("tp4"), *cut(model, 4, cut_dim)),
        "rows in 7 uneven parts": ranks(at("rows7"), *cut(model, 7, lambda name: 0, uneven=True)),
        "columns in 5 parts": ranks(at("columns5"), *cut(model, 5, lambda name: 0 if "norm" in name else 1)),
        "flat in 3 parts": ranks(at("flat3"), *flat(model, 3)),
        "flat in 16 parts": ranks(at("flat16"), *flat(model, 16)),
        "tensor parallel 2 and FSDP2 3": two_cuts(model, at("tp_fsdp")),
        "fused, stacked, padded": ranks(at("fused"), [padded(joined, 56)], [{}], model=dict(MODEL, vocabulary=VOCABULARY)),
        "fused, tensor parallel 2": ranks(at("fused_tp2"), *tp2, model=MODEL),
        "Megatron": ranks(at("megatron"), [core], [{}], model=dict(MODEL, gated=True)),
        "Megatron, tensor parallel 2": ranks(at("megatron_tp2"), *with_blocks(core, cut(core, 2, megatron_dim), fc1, 2),
                                             model=dict(MODEL, gated=True)),
        "Megatron, two stages": stages(core, at("stages")),
        "experts on two ranks": expert_ranks(model, at("ep2")),
        "another order": ranks(at("shuffled"), [shuffled(model)], [{}]),
        "other strides": ranks(at("turned"), [turned(model)], [{}]),
    }


def test_layouts(files):
    with tempfile.TemporaryDirectory() as folder:
        layouts = all_layouts(files, make_model(), folder)
        assert len(layouts) >= 20, len(layouts)
        first = layouts["live"]
        for name, path in layouts.items():
            for a, b in ((first, path), (path, first)):
                found = files.compare(a, b, folder)
                bad = [(one["name"], one["outcome"], one["rows"], one["notes"]) for one in found["parameters"] if one["outcome"] != "identical"]
                alone = found["only_in_1"] + found["only_in_2"]
                assert not bad and not alone and len(found["parameters"]) == len(make_model()), (name, bad[:4], alone[:4])
        size = max(os.path.getsize(os.path.join(layouts["live"], one)) for one in os.listdir(layouts["live"]))
        print("%d layouts: equal digests; %d bytes for %d parameters" % (len(layouts), size, len(make_model())))


# ---- faults ----

def block_of(rows, first, last):
    """The rows that a correct answer names for a change of rows first .. last."""
    size = max(rows // 64, 1)
    return "%d-%d" % (first // size * size, min((last // size + 1) * size, rows) - 1)


def single_faults():
    """(name, parameter, change(tensor) -> (first row, last row) that changed)"""
    def at(row, column, change):
        def fault(tensor):
            tensor[row, column] = change(tensor[row, column])
            return row, row
        return fault

    def exchange(a, b):
        def fault(tensor):
            tensor[a], tensor[b] = tensor[b].clone(), tensor[a].clone()
            return min(a[0], b[0]), max(a[0], b[0])
        return fault

    def rows(first, last, change):
        def fault(tensor):
            tensor[first:last + 1] = change(tensor[first:last + 1].clone())
            return first, last
        return fault

    def opposite(a, b):
        def fault(tensor):
            tensor[a] += 0.5
            tensor[b] -= 0.5
            return min(a[0], b[0]), max(a[0], b[0])
        return fault

    q, o, up, down = "self_attn.q_proj.weight", "self_attn.o_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"
    layer = "model.layers.%d."
    return [
        ("one element", layer % 0 + q, at(5, 7, lambda x: x + 1)),
        ("the last element", layer % 1 + up, at(INNER - 1, HIDDEN - 1, lambda x: x * 2)),
        ("the first element", layer % 0 + down, at(0, 0, lambda x: -x)),
        ("a lost sign", layer % 0 + o, at(63, 63, lambda x: -x)),
        ("NaN", layer % 1 + q, at(17, 3, lambda x: x * float("nan"))),
        ("infinity", layer % 1 + o, at(33, 9, lambda x: x * 0 + float("inf"))),
        ("zero", layer % 1 + down, at(12, 155, lambda x: x * 0)),
        ("the last bit", layer % 0 + up, at(77, 1, lambda x: (x.view(torch.int16) + 1).view(x.dtype))),
        ("two elements of a row exchanged", layer % 0 + q, exchange((9, 1), (9, 2))),
        ("two elements of a column exchanged", layer % 0 + up, exchange((3, 4), (150, 4))),
        ("two rows exchanged", layer % 1 + o, exchange((2,), (50,))),
        ("neighbouring rows exchanged", layer % 1 + q, exchange((2,), (3,))),
        ("+x and -x in a row", layer % 0 + down, opposite((20, 1), (20, 150))),
        ("+x and -x in two rows", layer % 1 + up, opposite((20, 1), (100, 1))),
        ("+x and -x side by side", layer % 0 + o, opposite((63, 62), (63, 63))),
        ("rows of zeros", layer % 1 + up, rows(80, 159, lambda part: part * 0)),
        ("rows shifted by one", layer % 0 + up, rows(10, 40, lambda part: part.roll(1, 0))),
        ("columns shifted by one", layer % 0 + q, rows(0, 63, lambda part: part.roll(1, 1))),
        ("rows twice as large", layer % 1 + down, rows(30, 31, lambda part: part * 2)),
        ("all negated", layer % 1 + o, rows(0, 63, lambda part: -part)),
        ("a row of the vocabulary", "model.embed_tokens.weight", rows(199, 199, lambda part: part + 1)),
        ("rows of the output layer", "lm_head.weight", rows(100, 150, lambda part: part * 0)),
        ("an expert's row", layer % 2 + "mlp.experts.3.up_proj.weight", rows(0, 0, lambda part: part * 3)),
        ("a router's row", layer % 2 + "mlp.gate.weight", rows(2, 2, lambda part: -part)),
        ("transposed", layer % 0 + o, rows(0, 63, lambda part: part.t().clone())),
    ]


def test_faults(files):
    planted = 0
    with tempfile.TemporaryDirectory() as folder:
        model = make_model()
        reference = ranks(os.path.join(folder, "reference"), [model], [{}])

        def expect(name, held, wanted, cause=None, code=0, outcome="different"):
            """held: what ckpt_compare reads; wanted: {parameter: rows or None}"""
            nonlocal planted
            planted += 1
            found = files.compare(reference, held, folder, code)
            bad = {one["name"]: one for one in found["parameters"] if one["outcome"] != "identical"}
            assert set(bad) == set(wanted), (name, sorted(bad), sorted(wanted))
            for parameter, rows in wanted.items():
                one = bad[parameter]
                assert one["outcome"] == outcome and (rows is None or one["rows"] == rows), (name, parameter, one, rows)
                assert cause is None or one["cause"] == cause.get(parameter, one["cause"]), (name, parameter, one["cause"], cause)

        # In turns as the trainer holds it, fused as an engine does, in two tensor parallel ranks, and flat.
        for number, (name, parameter, change) in enumerate(single_faults()):
            broken = {key: tensor.clone() for key, tensor in model.items()}
            first, last = change(broken[parameter])
            path = os.path.join(folder, "single%d" % number)
            form = number % 4
            held = (ranks(path, [broken], [{}]) if form == 0 else
                    ranks(path, [padded(fused(broken), 56)], [{}], model=dict(MODEL, vocabulary=VOCABULARY)) if form == 1 else
                    ranks(path, *cut(broken, 2, cut_dim)) if form == 2 else ranks(path, *flat(broken, 3)))
            expect(name, held, {parameter: block_of(model[parameter].shape[0], first, last)})

        def whole(name, change, wanted, cause=None):
            broken = {key: tensor.clone() for key, tensor in model.items()}
            change(broken)
            expect(name, ranks(os.path.join(folder, name.replace(" ", "_")), [padded(fused(broken), 24, 0.0)], [{}],
                               model=dict(MODEL, vocabulary=VOCABULARY)), wanted, cause)

        def swap(a, b):
            def change(held):
                held[a], held[b] = held[b], held[a]
            return change

        one, other = "model.layers.2.mlp.experts.1.up_proj.weight", "model.layers.2.mlp.experts.2.up_proj.weight"
        whole("swapped experts", swap(one, other), {one: "0-159", other: "0-159"},
              {one: "swapped_with:" + other, other: "swapped_with:" + one})
        k, v = "model.layers.0.self_attn.k_proj.weight", "model.layers.0.self_attn.v_proj.weight"
        whole("key and value exchanged", swap(k, v), {k: "0-31", v: "0-31"}, {k: "swapped_with:" + v})
        gate, up = "model.layers.1.mlp.gate_proj.weight", "model.layers.1.mlp.up_proj.weight"
        whole("gate and up exchanged", swap(gate, up), {gate: "0-159", up: "0-159"}, {gate: "swapped_with:" + up})
        first, second = "model.layers.0.input_layernorm.weight", "model.layers.1.input_layernorm.weight"
        whole("norms exchanged", swap(first, second), {first: "0-63", second: "0-63"}, {first: "swapped_with:" + second})

        # A layer of the step before, and the same with that step at hand.
        old = make_model(seed=2)
        stale = {name: old[name] if ".layers.1." in name else tensor for name, tensor in model.items()}
        wanted = {name: "0-%d" % (model[name].shape[0] - 1) for name in model if ".layers.1." in name}
        path = ranks(os.path.join(folder, "stale"), [fused(stale)], [{}], model=MODEL)
        expect("a stale layer", path, wanted)
        step = ranks(os.path.join(folder, "old"), [old], [{}])
        found = files.compare(reference, path, folder, 0, "--also", step)
        assert {entry["cause"] for entry in found["parameters"] if entry["outcome"] == "different"} == {"stale"}
        planted += 1

        # A shard that was never sent, by each way to cut.
        for number, name in enumerate(("model.layers.0.mlp.down_proj.weight", "model.layers.1.self_attn.q_proj.weight",
                                       "lm_head.weight")):
            held, records = cut(model, 4, cut_dim)
            held[2].pop(name)
            path = ranks(os.path.join(folder, "lost%d" % number), held, records)
            rows = "0-63" if cut_dim(name) else {"lm_head.weight": block_of(VOCABULARY, 100, 149)}.get(name, "32-47")
            expect("a lost shard of " + name, path, {name: rows}, {name: "part_missing"})
        held, records = flat(model, 3)
        lost = max((name for name in held[1] if held[1][name].numel() and not held[0][name].numel() and not held[2][name].numel()), key=len)
        held[1].pop(lost)
        rows = "0-%d" % (model[lost].shape[0] - 1)
        expect("a lost flat range", ranks(os.path.join(folder, "lost_flat"), held, records), {lost: rows}, {lost: "part_missing"})

        # Copies that differ, and a shard that one rank has of another step.
        held, records = cut(model, 2, cut_dim)
        held[1] = dict(held[1], **{"model.norm.weight": old["model.norm.weight"]})
        expect("copies differ", ranks(os.path.join(folder, "copies"), held, records), {"model.norm.weight": "0-63"})
        held, records = cut(model, 2, cut_dim)
        held[1] = dict(held[1], **{"model.layers.0.mlp.up_proj.weight": old["model.layers.0.mlp.up_proj.weight"][80:]})
        expect("a stale shard", ranks(os.path.join(folder, "stale_shard"), held, records), {"model.layers.0.mlp.up_proj.weight": "80-159"})

        # A cast that nobody declared, and one that rounds what the other side did not.
        wide = {name: tensor.float() * 1.0001 for name, tensor in model.items()}
        norm = dict(model, **{"model.norm.weight": wide["model.norm.weight"]})
        expect("a parameter in float32", ranks(os.path.join(folder, "wide"), [norm], [{}]), {"model.norm.weight": None})
        everything = {name: None for name in model}
        path = ranks(os.path.join(folder, "half"), [wide], [{}], dtype="float16")
        found = files.compare(reference, path, folder, 3)
        assert {one["outcome"] for one in found["parameters"]} == {"not comparable"} and len(found["parameters"]) == len(everything)
        planted += 1

        # A rank's file is missing.
        path = ranks(os.path.join(folder, "rankless"), *cut(model, 4, cut_dim))
        os.remove(os.path.join(path, "digest_rank3.json"))
        found = files.compare(reference, path, folder, 3)
        lost = {one["name"] for one in found["parameters"] if one["outcome"] == "not comparable"}
        assert lost == {name for name in model if cut_dim(name) is not None}, lost
        planted += 1

        # A digest of other rows: padding that nobody recorded.
        path = ranks(os.path.join(folder, "padding"), [padded(model, 24)], [{}])
        expect("padding without a record", path, {"model.embed_tokens.weight": None, "lm_head.weight": None}, code=3, outcome="not comparable")

        # A damaged file.
        path = os.path.join(folder, "damaged.json")
        with open(os.path.join(reference, "digest_rank0.json")) as file:
            text = file.read()
        with open(path, "w") as file:
            file.write(text.replace('"blocks": "', '"blocks": "!', 1))
        files.run("ckpt_compare", reference, path, "-o", os.path.join(folder, "out.json"), "--force", "-q", expect=3)
        planted += 1
    assert planted >= 40, planted
    print("%d faults: all named" % planted)


def test_howto(files):
    """The first example of the how-to, in both languages, prints what stands below it."""
    docs = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "how-to")
    for page in ("prove-weights.md", "prove-weights.zh.md"):
        with open(os.path.join(docs, page), encoding="utf-8") as file:
            text = file.read()
        program = text.split("```python\n")[1].split("```")[0]
        expected = text.split("```text\n")[1].split("```")[0]
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(os.environ, MSPROBE=os.path.abspath(files.program), PATH=os.path.dirname(os.path.abspath(files.program)) + ":" + os.environ["PATH"])
            done = subprocess.run([sys.executable, "-c", program], cwd=folder, env=environment, capture_output=True, text=True)
            assert done.returncode == 0 and done.stdout == expected, (page, done.stdout, done.stderr)
    print("how-to: its example prints what it says")


if __name__ == "__main__":
    chosen = sys.argv[2:] or ["layouts", "faults", "howto"]
    for one in chosen:
        {"layouts": test_layouts, "faults": test_faults, "howto": test_howto}[one](Files(sys.argv[1]))
