"""Digests of the weights of a running trainer or engine, to prove that two of them hold the same model (docs/how-to/prove-weights.md).

    import msprobe.weights
    msprobe.weights.digest(model, "trainer_digests")           # every rank of the trainer
    msprobe.weights.digest(engine_model, "engine_digests")     # every rank of the engine
    msprobe.ckpt_compare("trainer_digests", "engine_digests")  # anywhere, at any time

Each rank adds up what it holds where it lies: nothing is gathered, no rank waits for another one, no value is changed. Tensors of the host
are read in place; those of an accelerator are copied to the host in blocks of some megabytes. Which part of the model a tensor is comes
from what the frameworks have set (layout.json, docs/formats/layout_json.md), or from `layout`.
"""
import fnmatch
import json
import os
import sys

from msprobe import _native

__all__ = ["digest"]

_BLOCK_BYTES = 32 << 20  # of a tensor on an accelerator, copied at a time


def digest(model_or_state_dict, path=None, *, layout=None, dtype=None):
    """The digest of what this process holds of a model, as the object of docs/formats/digest_json.md.

    model_or_state_dict: a module, a list of modules (the chunks of a pipeline), or {name: tensor}
    path: a folder, which gets digest_rank<rank>.json, or a file whose name ends with .json; without it nothing is written
    layout: what layout.json says of this rank, as an object, where the frameworks do not say it: names of {name: tensor} with "kind",
        "dim", "part", "parts", "blocks", "flat", "global_shape"; "rank" and "world_size"; "layers" and "experts" for names; "model" with
        "attention_heads", "query_groups", "vocabulary" and "gated"
    dtype: the cast to declare: float32, bfloat16 or float16, or PyTorch's own; values are rounded to it before they are added up
    """
    torch = sys.modules["torch"]  # whoever has tensors has it
    from msprobe.pytorch import values

    values.configure()
    with torch.no_grad():
        return _digest(model_or_state_dict, path, layout, dtype)


def _digest(held, path, layout, dtype):
    models = _models_of(held)
    record = dict(layout) if layout is not None else _describe(models) if models else {}
    tensors = _tensors_of(models) if models else dict(held)
    declared, pieces = [], []
    for name, tensor in tensors.items():
        for one, found in _placed(name, tensor, record):
            declared.append(one)
            pieces.append(found)
    settings = dict(_facts_of(models, record), parameters=declared)
    settings["rank"], settings["world_size"] = _place(record)
    settings["source"] = "live model" + (" (%s)" % record["framework"] if record.get("framework") else "")
    if dtype is not None:
        settings["dtype"] = str(dtype)
    digest_ = _native.digest_open(json.dumps(settings))
    for number, found in enumerate(pieces):
        for offset, tensor in found:
            for start, block in _host_blocks(tensor):
                _native.digest_add(digest_, number, tuple(at + (start if axis == 0 else 0) for axis, at in enumerate(offset)), block)
    text = _native.digest_text(digest_)
    if path is not None:
        _write(os.fspath(path), settings["rank"], text)
    return json.loads(text)


def _place(record):
    from msprobe.pytorch import distributed

    world = int(record.get("world_size") or distributed.world_size())
    return int(record["rank"]) if record.get("rank") is not None else max(distributed.rank(), 0), world


def _write(path, rank, text):
    if not path.endswith(".json"):
        os.makedirs(path, exist_ok=True)
        path = os.path.join(path, "digest_rank%d.json" % rank)
    unfinished = "%s.%d.tmp" % (path, os.getpid())
    with open(unfinished, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(unfinished, path)


# ---- what there is ----

def _models_of(held):
    """[(prefix of paths, module), ...]; empty for a state dict."""
    if hasattr(held, "named_parameters"):
        return [("", held)]
    if isinstance(held, (list, tuple)):
        return [("%d." % number, model) for number, model in enumerate(held)]
    return []


def _describe(models):
    from msprobe.pytorch import layout

    return layout.describe(models)


def _tensors_of(models):
    """{path: what is stored here of it}: parameters, and buffers that a checkpoint would have."""
    found = {}
    for prefix, root in models:
        modules = dict(root.named_modules())
        paths = {id(module): prefix + path for path, module in modules.items()}
        flat = {}
        for module in modules.values():
            flat.update(_flat_parameters(module, paths))
        seen = set()
        for path, module in modules.items():
            base = prefix + path + ("." if path else "")
            for name, parameter in list(module._parameters.items()):
                if parameter is None or name in ("_flat_param", "flat_param") or base + name in flat or id(parameter) in seen:
                    continue
                seen.add(id(parameter))
                found[base + name] = _stored(parameter)
            transient = getattr(module, "_non_persistent_buffers_set", ())
            for name, buffer in list(module._buffers.items()):
                # Checkpoints have no names like vLLM's _k_scale, of its cache.
                if buffer is not None and name not in transient and not name.startswith("_"):
                    found[base + name] = buffer
        found.update(flat)
    return found


def _stored(parameter):
    """DeepSpeed's ZeRO stage 3 keeps this rank's part beside a parameter that is empty, or whole for the moment."""
    part = getattr(parameter, "ds_tensor", None)
    return part if part is not None and hasattr(parameter, "ds_shape") else parameter


def _flat_parameters(module, paths):
    """FSDP1: {path: this rank's elements of a parameter}, one behind the other in one tensor."""
    if type(module).__name__ != "FullyShardedDataParallel":
        return {}
    from msprobe.pytorch import layout

    found = {}
    for flat in layout.flat_parameters(module):
        local = getattr(flat, "_local_shard", None)
        local = (flat if local is None or not local.numel() else local).detach().reshape(-1)
        for owner, name, _, piece, offset in layout.parts_of_flat(flat):
            path = paths.get(id(owner))
            if path is not None and piece is not None:
                found[path + ("." if path else "") + name] = local[offset:offset + piece[1] - piece[0]]
    return found


# ---- where it lies in the whole ----

def _placed(name, tensor, record):
    """[(declaration of a parameter of the whole model, [(offset, tensor), ...]), ...]"""
    entry = _entry_of(name, record)
    try:
        if getattr(tensor, "_local_tensor", None) is not None and entry is None:
            entry = _entry_of_dtensor(tensor)
        local = getattr(tensor, "_local_tensor", None)
        local = tensor if local is None else local
        local = getattr(local, "data", local) if hasattr(local, "requires_grad") else local
        whole, pieces = _pieces_of(entry or {}, local)
        problem = None
    except Exception as error:  # this parameter is marked, the others are digested
        whole, pieces, problem = [int(size) for size in tensor.shape], [], "%s: %s" % (type(error).__name__, error)
        local = tensor
    declared = {"name": _global_name(name, entry or {}, record), "shape": whole, "dtype": str(local.dtype).replace("torch.", "")}
    if problem:
        declared["problem"] = problem
    stacked = _experts_in(name, whole)
    if stacked is None or problem:
        return [(declared, pieces)]
    # One parameter for each of the experts that are stacked in it.
    first, result = (entry or {}).get("experts"), []
    for expert in range(whole[0]):
        mine = [(offset[1:], part[expert - offset[0]]) for offset, part in pieces if offset[0] <= expert < offset[0] + part.shape[0]]
        number = first[expert] if first else expert
        result.append((dict(declared, name=stacked % number, shape=whole[1:]), mine))
    return result


def _experts_in(name, shape):
    """The name of one expert's parameter, for vLLM's two tensors of all experts."""
    for ending, own in ((".experts.w13_weight", ".experts.%d.gate_up_proj.weight"), (".experts.w2_weight", ".experts.%d.down_proj.weight")):
        if name.endswith(ending) and len(shape) == 3:
            return name[:-len(ending)].replace("%", "%%") + own
    return None


def _entry_of(name, record):
    parameters = record.get("parameters") or {}
    if name in parameters:
        return parameters[name]
    for pattern, entry in parameters.items():
        if "*" in pattern and fnmatch.fnmatchcase(name, pattern):
            return entry
    return None


def _entry_of_dtensor(tensor):
    """Of a DTensor in a state dict: cuts from the outermost to the innermost."""
    from msprobe.pytorch import distributed, layout

    mesh = layout._Mesh(tensor.device_mesh, max(distributed.rank(), 0))
    cuts, strided = [], []
    for dimension, placement in enumerate(tensor.placements):
        kind, along = layout._placement(placement)
        cut = {"kind": kind, "part": mesh.coordinate[dimension], "parts": mesh.shape[dimension], "dim": along}
        (strided if getattr(placement, "split_factor", 1) > 1 else cuts).append(cut)
    return {"kind": "shard", "placements": cuts + strided, "global_shape": [int(size) for size in tensor.shape]}


def _chunk(size, part, parts, sizes=None):
    """(first, count) of a part, cut as torch.chunk cuts."""
    if sizes:
        return sum(sizes[:part]), sizes[part]
    most = -(-size // parts)
    first = min(part * most, size)
    return first, min(most, size - first)


def _pieces_of(entry, local):
    """(shape of the whole, [(offset, part of `local`), ...])"""
    shape = [int(size) for size in local.shape]
    whole = [int(size) for size in entry.get("global_shape") or ()] or None
    cuts = entry.get("placements") or ([entry] if entry.get("kind") in ("shard", "partial") else [])
    if any(cut.get("kind") == "partial" for cut in cuts):
        raise ValueError("its ranks hold summands, not values")
    if entry.get("flat") is not None:
        first, end = entry["flat"]
        flat, at, pieces = local.reshape(-1), 0, []
        for offset, size in _boxes(whole, first, end):
            count = _product(size)
            pieces.append((offset, flat[at:at + count].reshape(size)))
            at += count
        return whole, pieces
    cuts = [cut for cut in cuts if cut.get("kind") == "shard" and cut.get("parts") and cut.get("part") is not None]
    if whole is None and cuts:
        whole = list(shape)
        for cut in cuts:
            whole[cut["dim"]] *= cut["parts"]
    if not cuts or whole == shape:
        if whole is not None and whole != shape:
            raise ValueError("it has shape %s, of the whole %s, and no record of its place" % (shape, whole))
        return shape, [([0] * len(shape), local)]
    if len(cuts) == 1 and (entry.get("blocks") or int(entry.get("stride") or 1) > 1):
        return whole, _block_pieces(entry, cuts[0], whole, local)
    offset, size = [0] * len(whole), list(whole)
    for cut in cuts:
        dim = cut["dim"] % len(whole)
        first, count = _chunk(size[dim], cut["part"], cut["parts"], cut.get("part_sizes"))
        offset[dim] += first
        size[dim] = count
    if size != shape:
        raise ValueError("it has shape %s, its record says %s" % (shape, size))
    return whole, [(offset, local)]


def _block_pieces(entry, cut, whole, local):
    """Of projections that are fused: a rank has its part of each, one behind the other."""
    dim = cut["dim"] % len(whole)
    count = int(entry.get("stride") or 1)
    blocks = entry.get("blocks") or [whole[dim] // count] * count
    pieces, start, at = [], 0, 0
    for block in blocks:
        first, size = _chunk(block, cut["part"], cut["parts"])
        offset = [0] * len(whole)
        offset[dim] = start + first
        pieces.append((offset, local.narrow(dim, at, size)))
        start += block
        at += size
    if start != whole[dim] or at != local.shape[dim]:
        raise ValueError("blocks %s do not make up %d of %d" % (blocks, local.shape[dim], whole[dim]))
    return pieces


def _product(sizes):
    result = 1
    for size in sizes:
        result *= size
    return result


def _boxes(shape, first, end):
    """(offset, size) of rectangles that hold elements [first, end) of the flattened whole, one behind the other."""
    if first >= end:
        return
    if not shape:
        yield [], []
        return
    inner = _product(shape[1:])
    row, last = first // inner, (end - 1) // inner
    zeros, rest = [0] * (len(shape) - 1), list(shape[1:])
    begin = row
    if first % inner or row == last and end % inner:
        for offset, size in _boxes(rest, first - row * inner, min(end - row * inner, inner)):
            yield [row] + offset, [1] + size
        begin = row + 1
    stop = last if end % inner and last > row else last + 1
    if begin < stop:
        yield [begin] + zeros, [stop - begin] + rest
    if stop == last and last >= begin:
        for offset, size in _boxes(rest, 0, end - last * inner):
            yield [last] + offset, [1] + size


def _global_name(name, entry, record):
    """As the whole model calls it: stages and experts count through all ranks."""
    path, _, last = name.rpartition(".")
    layers = record.get("layers") or {}
    fitting = [key for key in layers if path == key or path.startswith(key + ".") or key == ""]
    if fitting:
        key = max(fitting, key=len)
        path = (layers[key] + path[len(key):]).strip(".")
    experts = record.get("experts") or {}
    local = name.rpartition(".")[0]
    for key, number in experts.items():
        if local == key or local.startswith(key + "."):
            inside = local[len(key):]
            path = path[:len(path) - len(inside)].rpartition(".")[0] + "." + str(number) + inside
            break
    if entry.get("expert") is not None:
        last = last.rstrip("0123456789") + str(entry["expert"])
    return path + "." + last if path else last


# ---- values ----

def _host_blocks(tensor):
    """(first row, block) of a tensor, on the host."""
    device = getattr(tensor, "device", None)
    if device is None or getattr(device, "type", "cpu") == "cpu":
        yield 0, tensor
        return
    if tensor.dim() == 0 or tensor.numel() * tensor.element_size() <= _BLOCK_BYTES:
        yield 0, tensor.cpu()
        return
    rows = max(_BLOCK_BYTES // max(tensor.numel() // tensor.shape[0] * tensor.element_size(), 1), 1)
    for first in range(0, tensor.shape[0], rows):
        yield first, tensor[first:first + rows].cpu()


# ---- facts of the model ----

_FACTS = {
    "attention_heads": ("num_attention_heads", "n_head"),
    "query_groups": ("num_key_value_heads", "num_query_groups"),
    "vocabulary": ("vocab_size",),
    "gated": ("gated_linear_unit",),
}


def _facts_of(models, record):
    facts = {}
    for _, root in models:
        for module in root.modules():
            config = vars(module).get("config")
            for fact, names in _FACTS.items():
                for name in names:
                    value = getattr(config, name, None) if config is not None else None
                    if fact not in facts and isinstance(value, (int, bool)):
                        facts[fact] = value
            words = vars(module).get("org_vocab_size")  # vLLM, which pads the rows
            if isinstance(words, int):
                facts.setdefault("vocabulary", words)
    for entry in (record.get("parameters") or {}).values():
        if entry.get("padded_from"):
            facts["vocabulary"] = entry["padded_from"]
    facts.update({key: value for key, value in (record.get("model") or {}).items() if key in _FACTS})
    return facts
