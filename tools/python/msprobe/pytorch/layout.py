"""Which part of the model this rank holds: the content of layout.json (docs/formats/layout_json.md).

What frameworks know of it stands in objects that the script has made: placements of DTensors and the meshes below them, states of FSDP,
the process group of a DistributedDataParallel, Megatron's parallel_state and the attributes that it gives to parameters and modules. All of
that is read as it is. Nothing is imported that the script has not imported, no rank is asked, no tensor of the training is computed
with. What is not known is left out.

`describe` goes in three steps: a walk over the modules makes nodes with their paths, as they are in a dump's rows; sources (one class
per framework) say which groups there are and what they know of single parameters; every parameter then gets the entry of the first
source that knows it. A source that fails is reported, the others go on.
"""
import json
import sys

from msprobe._intercept.runtime import own_work
from msprobe.pytorch import distributed

SCHEMA_VERSION = 1

# The kinds of groups, by what frameworks call the dimensions of meshes and their process groups. Compared in lower case, without what
# PyTorch (mesh_) and Megatron (_parallel_group, ...) put around them.
_KINDS = {
    "tp": "tp", "tensor": "tp", "tensor_model": "tp", "mp": "tp",
    "pp": "pp", "pipe": "pp", "pipeline": "pp", "pipeline_model": "pp", "stage": "pp",
    "dp": "dp", "data": "dp", "ddp": "dp", "batch": "dp",
    "dp_replicate": "dp_replicate", "replicate": "dp_replicate",
    "fsdp": "fsdp", "dp_shard": "fsdp", "shard": "fsdp", "dp_shard_cp": "fsdp", "dp_cp": "dp_cp", "data_with_cp": "dp_cp",
    "cp": "cp", "context": "cp", "sp": "cp", "sequence": "cp",
    "ep": "ep", "expert": "ep", "expert_model": "ep",
}
_AROUND = ("mesh_", "_parallel_group", "_parallel", "_group")
# Kinds that store a parameter in parts: whoever computes with it gathers it first.
_STORED = ("fsdp", "dp", "dp_replicate")

# What stands between a path of the dump and that of the model alone: the attribute under which a wrapper has what it wraps.
_WRAPPERS = {
    "DistributedDataParallel": "module", "DataParallel": "module", "Float16Module": "module", "DeepSpeedEngine": "module",
    "PipelineEngine": "module", "FullyShardedDataParallel": "_fsdp_wrapped_module", "OptimizedModule": "_orig_mod",
    "CheckpointWrapper": "_checkpoint_wrapped_module", "OffloadWrapper": "_checkpoint_wrapped_module", "LitModule": "module",
}


def _kind_of(name):
    """The kind of a group that is called `name`; None: an unknown one."""
    name = str(name or "").lower()
    for text in _AROUND:
        name = name[len(text):] if text.endswith("_") and name.startswith(text) else name
        name = name[:-len(text)] if text.startswith("_") and name.endswith(text) else name
    return _KINDS.get(name)


class _Node:
    """One module of the model."""

    __slots__ = ("module", "path", "name")

    def __init__(self, module, path):
        self.module = module
        self.path = path
        self.name = type(module).__name__

    def own(self, name, kind=object):
        """An attribute of the module itself, if it is of this kind: what a class computes is not asked, and wrappers hand on the names of
        what is in them."""
        value = vars(self.module).get(name)
        return value if isinstance(value, kind) and not isinstance(value, bool) else None


class _Mesh:
    """A device mesh as numbers: which ranks differ from this one in one dimension alone."""

    def __init__(self, mesh, rank):
        tensor = mesh.mesh
        self.shape = tuple(tensor.shape)
        self.ranks = tensor.reshape(-1).tolist()
        self.names = tuple(getattr(mesh, "mesh_dim_names", None) or (None,) * len(self.shape))
        self.coordinate = self._place(self.ranks.index(rank)) if rank in self.ranks else None

    def _place(self, index):
        place = []
        for size in reversed(self.shape):
            place.append(index % size)
            index //= size
        return tuple(reversed(place))

    def along(self, dimension):
        """The ranks of the group of this dimension."""
        return [rank for index, rank in enumerate(self.ranks)
                if all(own == other or at == dimension
                       for at, (own, other) in enumerate(zip(self.coordinate, self._place(index))))]


class Layout:
    """What has been found. Sources fill it."""

    def __init__(self, models):
        self.rank = max(distributed.rank(), 0)
        self.world_size = distributed.world_size()
        self.groups = {}
        self.process_groups = []
        self.frameworks = []
        self.parameters = {}
        self.layers = {}
        self.experts = {}
        self.more = {}  # further keys of the top level
        self.nodes = []
        self.roots = []  # (path, module)
        self._meshes = {}
        self._local_experts = None
        for prefix, root in models:
            self.roots.append((prefix.rstrip("."), root))
            for path, module in root.named_modules():
                self.nodes.append(_Node(module, prefix + path if path else prefix.rstrip(".")))
        self.paths = {id(node.module): node.path for node in self.nodes}

    def add_group(self, kind, ranks):
        """The first source that knows a kind is believed."""
        if kind and ranks and self.rank in ranks:
            self.groups.setdefault(kind, [int(rank) for rank in ranks])

    def add_framework(self, name):
        if name not in self.frameworks:
            self.frameworks.append(name)

    def place_in(self, kind):
        """(this rank's place, size) of a group, or None."""
        ranks = self.groups.get(kind)
        return (ranks.index(self.rank), len(ranks)) if ranks else None

    def mesh(self, mesh):
        known = self._meshes.get(id(mesh))
        if known is None:
            known = self._meshes[id(mesh)] = (_Mesh(mesh, self.rank), mesh)  # held: its id stays its own
        return known[0]

    def local_experts(self):
        """{path of a module with experts: the global numbers of those that this rank has}"""
        if self._local_experts is None:
            self._local_experts = {}
            for node in self.nodes:
                numbers = node.own("local_expert_indices", (list, tuple))
                if numbers is None:
                    count, place = node.own("num_local_experts", int), self.place_in("ep")
                    numbers = [place[0] * count + index for index in range(count)] if count and place else ()
                if numbers and not any(node.path.startswith(path + ".") for path in self._local_experts):
                    self._local_experts[node.path] = [int(number) for number in numbers]
        return self._local_experts

    def all_parameters(self):
        """(node, name, parameter) of every parameter where it is registered."""
        for node in self.nodes:
            for name, parameter in list(node.module._parameters.items()):
                if parameter is not None:
                    yield node, name, parameter


def _key(path, name):
    return path + "." + name if path else name


def _shape(tensor):
    return [int(size) for size in tensor.shape]


class Source:
    """What one framework knows. Both are called once, in this order."""

    def __init__(self, layout):
        self.layout = layout

    def look(self):
        """Finds groups, and what belongs to the whole run."""

    def entry(self, node, name, parameter):
        """The entry of one parameter; None: this source does not know it."""
        return None


# ---- PyTorch ----

class _Groups(Source):
    """Process groups as they were made, and what is said of them. Frameworks come first, which know what they use a group for."""

    def look(self):
        layout = self.layout
        for ranks, description in distributed.groups():
            if ranks not in layout.process_groups:
                layout.process_groups.append(ranks)
            # Megatron's own words for its groups are many: its parallel_state has them by kind.
            if _parallel_state() is None:
                layout.add_group(_kind_of(description), ranks)


class _DTensors(Source):
    """Parameters that are DTensors, those of FSDP2 included: while FSDP2 computes, whole tensors stand in their place, and its states
    have them."""

    def __init__(self, layout):
        super().__init__(layout)
        self._sharded = {}  # (module, name): DTensor
        self._of_fsdp = set()  # meshes, whatever their dimensions are called
        self._kinds = {}  # mesh: the kinds of its dimensions

    def look(self):
        for node in self.layout.nodes:
            self._look_at_state(node)
        found = {}
        for node, name, parameter in self.layout.all_parameters():
            tensor = self._sharded.get((id(node.module), name), parameter)
            if _is_dtensor(tensor):
                found.setdefault(id(tensor.device_mesh), (tensor.device_mesh, []))[1].append(tensor)
        for key, (mesh, tensors) in found.items():
            self._kinds[key] = self._kinds_of(mesh, tensors)
        if found:
            self.layout.add_framework("fsdp2" if self._sharded else "dtensor")

    def _look_at_state(self, node):
        get = getattr(type(node.module), "_get_fsdp_state", None)
        if get is None:
            return
        state = get(node.module)
        groups = getattr(state, "_fsdp_param_groups", None)
        if groups is None:
            groups = [state._fsdp_param_group]
        for group in groups:
            if group is None:
                continue
            self._look_at_mesh(group.mesh_info)
            for one in group.fsdp_params:
                info = one._module_info
                places = [(info.module, info.param_name)]
                places += zip(info.shared_modules, info.shared_param_names)
                for module, name in places:
                    self._sharded[id(module), name] = one.sharded_param

    def _look_at_mesh(self, info):
        layout, mesh = self.layout, self.layout.mesh(info.mesh)
        if mesh.coordinate is None:
            return
        shard, replicate = getattr(info, "shard_mesh_dim", None), getattr(info, "replicate_mesh_dim", None)
        if shard is not None:
            layout.add_group("fsdp", mesh.along(shard))
        if replicate is not None:
            layout.add_group("dp_replicate", mesh.along(replicate))
        if not any(name is not None and "cp" in str(name) for name in mesh.names):
            layout.add_group("dp", mesh.ranks)
        self._of_fsdp.add(id(info.mesh))

    def _kinds_of(self, mesh, tensors):
        known = self.layout.mesh(mesh)
        if known.coordinate is None:
            return None
        kinds = []
        for dimension, name in enumerate(known.names):
            kind = _kind_of(name)
            placed = {_placement(tensor.placements[dimension])[0] for tensor in tensors}
            if self._sharded and (kind == "dp" or kind is None and id(mesh) in self._of_fsdp):
                kind = "fsdp" if "shard" in placed else "dp_replicate"
            elif kind is None and "shard" in placed:
                kind = "tp"
            kinds.append(kind)
            if kind != "fsdp" or "fsdp" not in self.layout.groups:
                self.layout.add_group(kind, known.along(dimension))
        return kinds

    def entry(self, node, name, parameter):
        tensor = self._sharded.get((id(node.module), name), parameter)
        if not _is_dtensor(tensor):
            # What was left as it is in a model that is cut for tensor parallelism is the same everywhere.
            is_whole = any(kinds and "tp" in kinds for kinds in self._kinds.values()) and not _is_cut(parameter)
            return {"kind": "replicated", "group": "tp", "global_shape": _shape(parameter)} if is_whole else None
        kinds = self._kinds.get(id(tensor.device_mesh))
        mesh = self.layout.mesh(tensor.device_mesh)
        shape = _shape(tensor)
        if kinds is None:
            return {"global_shape": shape}
        cuts, strided = [], []
        for dimension, (placement, kind) in enumerate(zip(tensor.placements, kinds)):
            what, along = _placement(placement)
            cut = {"kind": what, "part": mesh.coordinate[dimension], "parts": mesh.shape[dimension]}
            if along is not None:
                cut["dim"] = along
            if kind is not None:
                cut["group"] = kind
            # Split behind the dimensions to its right.
            (strided if hasattr(placement, "split_factor") and placement.split_factor > 1 else cuts).append(cut)
        cuts += strided
        main = _main_cut(cuts)
        entry = dict(main, global_shape=shape)
        if len(cuts) > 1:
            entry["placements"] = cuts
        if main["kind"] == "replicated":
            del entry["part"], entry["parts"]
        elif main["kind"] == "shard":
            sizes = _chunks(shape[main["dim"]], main["parts"])
            if len(set(sizes)) > 1:
                entry["part_sizes"] = sizes
        return entry


def _is_dtensor(tensor):
    return hasattr(tensor, "placements") and hasattr(tensor, "device_mesh")


def _placement(placement):
    """("shard", dimension), ("replicated", None) or ("partial", None)"""
    if placement.is_shard() or hasattr(placement, "split_factor"):
        return "shard", int(placement.dim)
    return ("partial" if placement.is_partial() else "replicated"), None


def _main_cut(cuts):
    """What the forward sees: parts that are only stored apart come last."""
    for wanted in ("shard", "partial"):
        of_kind = [cut for cut in cuts if cut["kind"] == wanted]
        computed = [cut for cut in of_kind if cut.get("group") not in _STORED]
        if computed or of_kind:
            return (computed or of_kind)[0]
    return cuts[0]


def _chunks(size, parts):
    """The sizes of parts as torch.chunk cuts them."""
    most = -(-size // parts) if parts else size
    return [max(min(most, size - index * most), 0) for index in range(parts)]


class _FlatParameters(Source):
    """FSDP1: parameters one behind the other, cut anywhere."""

    def __init__(self, layout):
        super().__init__(layout)
        self._entries = {}

    def look(self):
        for node in self.layout.nodes:
            if node.name == "FullyShardedDataParallel" and "_fsdp_wrapped_module" in node.module._modules:
                self.layout.add_framework("fsdp1")
                self._look_at(node.module)

    def _look_at(self, module):
        layout = self.layout
        ranks = distributed.ranks_of(getattr(module, "process_group", None))
        strategy = getattr(getattr(module, "sharding_strategy", None), "name", "")
        replicas = distributed.ranks_of(getattr(module, "_inter_node_pg", None)) if "HYBRID" in strategy else None
        if strategy != "NO_SHARD":
            layout.add_group("fsdp", ranks)
        if replicas:
            layout.add_group("dp_replicate", replicas)
            if len(ranks) * len(replicas) == layout.world_size:
                layout.add_group("dp", list(range(layout.world_size)))
        else:
            layout.add_group("dp", ranks)
        for flat in flat_parameters(module):
            for owner, name, shape, piece, _ in parts_of_flat(flat):
                entry = {"kind": "replicated", "global_shape": [int(size) for size in shape]}
                if strategy != "NO_SHARD" and ranks:
                    entry.update(kind="shard", part=ranks.index(layout.rank), parts=len(ranks), group="fsdp")
                    if piece is not None:
                        entry["flat"] = piece
                path = layout.paths.get(id(owner))
                if path is not None:
                    self._entries[id(owner), name] = entry
                    layout.parameters[_key(path, name)] = entry

    def entry(self, node, name, parameter):
        if name in ("_flat_param", "flat_param"):
            return {}  # what is in it has entries
        return self._entries.get((id(node.module), name))


def flat_parameters(module):
    """The flat parameters of a module of FSDP1."""
    handle = getattr(module, "_handle", None)
    handles = [handle] if handle is not None else list(getattr(module, "_handles", ()) or ())
    return [handle.flat_param for handle in handles]


def parts_of_flat(flat):
    """(module, name, shape, [first, end] of the elements that this rank stores, their offset in what it stores) of each parameter in a flat
    one. The last two are None where they are not known."""
    rows = []
    for info, shape, (piece, offset) in zip(flat._param_infos, flat._shapes, _pieces(flat)):
        rows.append((info.module, info.param_name, shape, piece, offset))
    return rows


def _pieces(flat):
    infos = getattr(flat, "_shard_param_infos", None)
    if infos is not None:
        return [([info.intra_param_start_idx, info.intra_param_end_idx + 1], info.offset_in_shard) if info.in_shard else ([0, 0], 0)
                for info in infos]
    offsets, indices = getattr(flat, "_shard_param_offsets", None), getattr(flat, "_shard_indices", None)
    if offsets is None or indices is None:
        return [(None, None)] * len(flat._shapes)
    pieces, offset = [([0, 0], 0) for _ in flat._shapes], 0
    for index, (first, last) in zip(range(indices[0], indices[1] + 1), offsets):
        pieces[index] = ([int(first), int(last) + 1], offset)
        offset += int(last) + 1 - int(first)
    return pieces


class _Replicas(Source):
    """DistributedDataParallel: what is in it is the same everywhere in its group."""

    def __init__(self, layout):
        super().__init__(layout)
        self._paths = []

    def look(self):
        for node in self.layout.nodes:
            if node.name == "DistributedDataParallel" and node.own("process_group") is not None:
                self.layout.add_framework("ddp")
                self.layout.add_group("dp", distributed.ranks_of(node.own("process_group")))
                self._paths.append(node.path)
                if not node.own("_comm_hooks"):
                    self.layout.more.setdefault("optimizer", {}).setdefault("gradient_reduction", "mean")

    def entry(self, node, name, parameter):
        if _is_cut(parameter):
            return None
        if any(not path or node.path == path or node.path.startswith(path + ".") for path in self._paths):
            return {"kind": "replicated", "group": "dp", "global_shape": _shape(parameter)}
        return None


# ---- Megatron, and what gives parameters the same attributes ----

_STATES = ("megatron.core.parallel_state", "megatron.core.mpu", "megatron.mpu.initialize", "megatron.mpu")
_STATE_GROUPS = (
    ("_TENSOR_MODEL_PARALLEL_GROUP", "tp"), ("_PIPELINE_MODEL_PARALLEL_GROUP", "pp"), ("_DATA_PARALLEL_GROUP", "dp"),
    ("_CONTEXT_PARALLEL_GROUP", "cp"), ("_EXPERT_MODEL_PARALLEL_GROUP", "ep"), ("_DATA_PARALLEL_GROUP_WITH_CP", "dp_cp"),
    ("_EXPERT_TENSOR_PARALLEL_GROUP", "expert_tp"), ("_EXPERT_DATA_PARALLEL_GROUP", "expert_dp"),
    ("_DATA_MODULO_EXPERT_PARALLEL_GROUP", "expert_dp"))
# Attributes of modules that hold the group that their parameters are cut over.
_GROUP_ATTRIBUTES = ("tp_group", "tensor_parallel_group", "tensor_model_parallel_group", "process_group", "group", "_group", "pg")
# Where modules keep how large a dimension of their parameter is altogether.
_WHOLE_SIZES = {0: ("output_size", "num_embeddings", "out_features", "vocab_size"), 1: ("input_size", "in_features", "embedding_dim")}


def _parallel_state():
    """Megatron's module, once its groups are made."""
    for name in _STATES:
        state = sys.modules.get(name)
        if getattr(state, "_TENSOR_MODEL_PARALLEL_GROUP", None) is not None:
            return state
    return None


class _Megatron(Source):
    """Megatron's parallel_state, where it is loaded, and the attributes of parameters, whoever sets them."""

    def __init__(self, layout):
        super().__init__(layout)
        self._has_state = False
        self._cut_in_model = False
        self._gated = {}  # module: how many equal blocks are fused in it
        self._shared_out = {}  # parameter: [first, end] of the elements that this rank's optimizer updates
        self._vocabulary = (None, None)  # padded, and as the tokenizer has it

    def look(self):
        layout = self.layout
        state = _parallel_state()
        self._has_state = state is not None
        if self._has_state:
            layout.add_framework("megatron-core" if ".core" in state.__name__ else "megatron")
            for name, kind in _STATE_GROUPS:
                group = getattr(state, name, None)
                if isinstance(group, (list, tuple)):
                    group = group[0] if group else None
                layout.add_group(kind, distributed.ranks_of(group))
        for node, name, parameter in layout.all_parameters():
            if _is_cut(parameter):
                self._cut_in_model = True
                if "tp" not in layout.groups:
                    self._find_group(node, name, parameter)
        for node in layout.nodes:
            self._look_at_configuration(node)
            if getattr(node.own("ddp_config"), "use_distributed_optimizer", False):
                self._look_at_buffers(node)
        if self._has_state:
            self._look_at_globals()

    def _look_at_buffers(self, node):
        """The distributed optimizer: each rank updates an equal part of every bucket, wherever its parameters begin and end."""
        for buffer in (node.own("buffers", list) or []) + (node.own("expert_parallel_buffers", list) or []):
            ranks = distributed.ranks_of(buffer.data_parallel_group)
            place = ranks.index(self.layout.rank)
            for parameter, where in buffer.param_index_map.items():
                first, end = int(where[0]), int(where[1])
                bucket = buffer.buckets[where[2]]
                size = bucket.grad_data.numel() // len(ranks)
                begin = int(bucket.offset) + place * size
                piece = [max(first, begin) - first, min(end, begin + size) - first]
                self._shared_out[id(parameter)] = piece if piece[0] < piece[1] else [0, 0]

    def _look_at_globals(self):
        """What Megatron's training keeps for the whole process."""
        kept = sys.modules.get("megatron.training.global_vars") or sys.modules.get("megatron.global_vars")
        arguments, tokenizer = getattr(kept, "_GLOBAL_ARGS", None), getattr(kept, "_GLOBAL_TOKENIZER", None)
        sizes = getattr(arguments, "padded_vocab_size", None), getattr(tokenizer, "vocab_size", getattr(arguments, "vocab_size", None))
        self._vocabulary = tuple(size if isinstance(size, int) else None for size in sizes)
        for name in ("megatron.core.num_microbatches_calculator", "megatron.core.microbatches"):
            calculator = getattr(sys.modules.get(name), "_GLOBAL_NUM_MICROBATCHES_CALCULATOR", None)
            count = getattr(calculator, "num_micro_batches", None)
            if isinstance(count, int):
                self.layout.more.setdefault("micro_batches", count)

    def _find_group(self, node, name, parameter):
        """Of code that keeps its groups to itself: the group at the module, else the only one of the right size. The mark of a cut alone
        says nothing: it is there where a single rank has all of the parts, too."""
        layout = self.layout
        for attribute in _GROUP_ATTRIBUTES:
            group = node.own(attribute)
            if group is not None and not isinstance(group, (list, tuple, str)):
                try:
                    ranks = distributed.ranks_of(group)
                except Exception:  # it is something else
                    continue
                if ranks and len(ranks) > 1:
                    layout.add_group("tp", ranks)
                    return
        parts = _parts_by_module(node, parameter)
        fitting = [ranks for ranks in layout.process_groups if len(ranks) == parts and not _is_other(layout, ranks)]
        if len(fitting) == 1:
            layout.add_group("tp", fitting[0])

    def _look_at_configuration(self, node):
        config = node.own("config")
        if config is None or not hasattr(config, "tensor_model_parallel_size"):
            return
        more = self.layout.more
        if getattr(config, "sequence_parallel", False):
            more["sequence_parallel"] = True
        cp = self.layout.place_in("cp")
        if cp and cp[1] > 1:
            more.setdefault("sequence", {"dim": 0, "part": cp[0], "parts": cp[1], "order": "zigzag"})
        if hasattr(config, "calculate_per_token_loss"):
            more.setdefault("optimizer", {}).setdefault(
                "gradient_reduction", "sum" if config.calculate_per_token_loss else "mean")
        # Both halves of a gated projection are cut, each for itself.
        first = node.module._modules.get("linear_fc1")
        if getattr(config, "gated_linear_unit", False) and first is not None:
            self._gated[id(first)] = 2

    def entry(self, node, name, parameter):
        entry = self._placed(node, parameter)
        if entry is not None:
            self._note_blocks(entry, node, parameter)
            self._note_vocabulary(entry, node)
            self._note_experts(entry, node, name, parameter)
            if id(parameter) in self._shared_out:
                entry["optimizer_flat"] = self._shared_out[id(parameter)]
            if getattr(parameter, "sequence_parallel", False) is True:
                entry["sequence_parallel"] = True
        return entry

    def _placed(self, node, parameter):
        layout, shape = self.layout, _shape(parameter)
        whole = {"kind": "replicated", "global_shape": shape}
        if not _is_cut(parameter):
            return whole if self._cut_in_model or self._has_state else None
        dimension = int(parameter.partition_dim)
        is_expert = getattr(parameter, "allreduce", True) is False
        place = layout.place_in("expert_tp" if is_expert and "expert_tp" in layout.groups else "tp")
        if layout.world_size == 1 or place and place[1] == 1 or not 0 <= dimension < len(shape):
            return whole
        parts = place[1] if place else _parts_by_module(node, parameter)
        part = place[0] if place else _part_by_module(node, shape[dimension])
        entry = {"kind": "shard", "dim": dimension, "group": "tp"}
        if part is not None:
            entry["part"] = part
        if parts is not None:
            shape[dimension] *= parts
            entry.update(parts=parts, global_shape=shape)
        return entry

    def _note_blocks(self, entry, node, parameter):
        """What is fused in a parameter: every rank has its part of each block."""
        if entry["kind"] != "shard" or "global_shape" not in entry:
            return
        stride = getattr(parameter, "partition_stride", 1)
        blocks = self._gated.get(id(node.module), 1)
        if isinstance(stride, int) and stride > 1:
            entry["stride"] = blocks = stride
        size = entry["global_shape"][entry["dim"]]
        if blocks > 1 and size % blocks == 0:
            entry["blocks"] = [size // blocks] * blocks

    def _note_vocabulary(self, entry, node):
        first, end = node.own("vocab_start_index", int), node.own("vocab_end_index", int)
        if first is not None and end is not None and entry.get("dim") == 0:
            entry["vocabulary"] = [first, end]
        padded, own = self._vocabulary
        shape = entry.get("global_shape")
        if own and padded and own < padded and shape and shape[0] == padded:
            entry["padded_to"], entry["padded_from"] = padded, own

    def _note_experts(self, entry, node, name, parameter):
        """Parameters of several experts in one module: one each (weight0, weight1, ...), or stacked in one tensor."""
        if getattr(parameter, "allreduce", True) is not False or "ep" not in self.layout.groups:
            return
        entry["expert_parallel"] = True
        numbers = next((numbers for path, numbers in self.layout.local_experts().items() if node.path.startswith(path + ".")), ())
        digits = name[len(name.rstrip("0123456789")):]
        if node.own("num_gemms", int) and digits and int(digits) < len(numbers):
            entry["expert"] = numbers[int(digits)]
        elif name in ("weight1", "weight2") and node.own("num_local_experts", int) == len(numbers):
            entry["experts"] = list(numbers)


def _is_cut(parameter):
    return getattr(parameter, "tensor_model_parallel", False) is True and isinstance(getattr(parameter, "partition_dim", None), int)


def _parts_by_module(node, parameter):
    """In how many parts a parameter is cut, by the size that its module has for the whole; None: nothing tells."""
    dimension = parameter.partition_dim
    if not 0 <= dimension < parameter.dim() or not parameter.shape[dimension]:
        return None
    for name in _WHOLE_SIZES.get(dimension, ()):
        size = node.own(name, int)
        if size is not None and size > parameter.shape[dimension] and size % parameter.shape[dimension] == 0:
            return size // parameter.shape[dimension]
    return None


def _part_by_module(node, size):
    start = node.own("vocab_start_index", int)
    return start // size if start and size and start % size == 0 else None


def _is_other(layout, ranks):
    """Whether a group is known to be of another kind."""
    return any(kind != "tp" and known == ranks and len(ranks) > 1 for kind, known in layout.groups.items())


# ---- DeepSpeed ----

class _DeepSpeed(Source):
    """Its engine is a module around the model. ZeRO stage 3 leaves parameters empty and keeps this rank's part of each beside it; stages 1
    and 2 share out what the optimizer keeps, which is not a matter of the model."""

    def __init__(self, layout):
        super().__init__(layout)
        self._ranks = None

    def look(self):
        layout = self.layout
        for node in layout.nodes:
            engine = node.module
            if all(kind.__name__ != "DeepSpeedEngine" for kind in type(engine).__mro__):
                continue
            layout.add_framework("deepspeed")
            stage = int(engine.zero_optimization_stage())
            self._ranks = distributed.ranks_of(node.own("data_parallel_group")) or list(range(layout.world_size))
            layout.add_group("dp", self._ranks)
            if stage == 3:
                layout.add_group("fsdp", self._ranks)
            groups = getattr(sys.modules.get("deepspeed.utils.groups"), "_EXPERT_PARALLEL_GROUP", None) or {}
            for group in groups.values():
                layout.add_group("ep", distributed.ranks_of(group))
            layout.more["zero_stage"] = stage
            layout.more.setdefault("optimizer", {}).setdefault("gradient_reduction", "mean")
            layout.more.setdefault("micro_batches", int(engine.gradient_accumulation_steps()))

    def entry(self, node, name, parameter):
        shape = getattr(parameter, "ds_shape", None)
        if shape is None:
            if not self._ranks or _is_cut(parameter):
                return None
            entry = {"kind": "replicated", "group": "dp", "global_shape": _shape(parameter)}
            if self.layout.more.get("zero_stage"):
                address = getattr(getattr(parameter, "_hp_mapping", None), "lp_fragment_address", None)
                entry["optimizer_flat"] = [int(address.start), int(address.start + address.numel)] if address else [0, 0]
            return entry
        ranks = distributed.ranks_of(getattr(parameter, "ds_process_group", None)) or self._ranks or []
        entry = {"kind": "shard", "group": "fsdp", "global_shape": [int(extent) for extent in shape]}
        if self.layout.rank in ranks:
            count, part = int(parameter.ds_numel), ranks.index(self.layout.rank)
            size = int(parameter.ds_tensor.ds_numel)
            entry.update(part=part, parts=len(ranks), flat=[min(part * size, count), min((part + 1) * size, count)])
        return entry


# ---- one process ----

class _Alone(Source):
    """One process has all of everything."""

    def entry(self, node, name, parameter):
        if self.layout.world_size == 1:
            return {"kind": "replicated", "global_shape": _shape(parameter)}
        return None


_SOURCES = (_DTensors, _FlatParameters, _Replicas, _Groups, _Megatron, _DeepSpeed, _Alone)


# ---- names: wrappers, layers, experts ----

def _note_names(layout):
    """Global paths where they differ from the local ones."""
    own = {}  # path: what wrappers and chunk numbers leave of it
    inside = {path: "" for path, _ in layout.roots}
    for node in layout.nodes:
        path = node.path
        if path in inside:
            own[path] = inside[path]
        else:
            above, _, last = path.rpartition(".")
            own[path] = _key(own.get(above, above), last)
        attribute = _WRAPPERS.get(node.name)
        if attribute and node.module._modules.get(attribute) is not None:
            inside[_key(path, attribute)] = own[path]
    for path, globally in inside.items():
        if path and path in own:
            layout.layers[path] = globally
    _note_layers(layout, own)
    _note_experts(layout)


def _note_layers(layout, own):
    found = {}
    for node in layout.nodes:
        number, last = node.own("layer_number", int), own[node.path].rpartition(".")[2]
        if number is not None and number >= 1 and last.isdigit():
            found[node.path] = (int(last), number - 1)
    if len(layout.roots) > 1 and found:
        layout.more["chunks"] = [min((number for path, (_, number) in found.items() if _root_of(layout, path) == root), default=None)
                                 for root, _ in layout.roots]
    if len((layout.groups.get("pp") or ())) <= 1 and all(local == number for local, number in found.values()):
        return
    for path, (_, number) in found.items():
        layout.layers[path] = _key(own[path].rpartition(".")[0], str(number))


def _root_of(layout, path):
    """The path of the model that a module is in; of several the longest, as the first one's may be empty."""
    return max((root for root, _ in layout.roots if not root or path.startswith(root + ".")), key=len, default="")


def _note_experts(layout):
    """Modules that stand for one expert each, by the list of those that this rank has."""
    for path, numbers in layout.local_experts().items():
        for inner in layout.nodes:
            above, _, last = inner.path.rpartition(".")
            if (inner.path.startswith(path + ".") and last.isdigit() and int(last) < len(numbers)
                    and "expert" in above.rpartition(".")[2] and inner.path not in layout.experts):
                layout.experts[inner.path] = numbers[int(last)]


# ---- all together ----

def describe(models, failed=lambda where, error: None):
    """The content of layout.json for [(prefix of paths, model), ...], as an object. failed(where, error) is called for what could not be read."""
    with own_work():
        layout = Layout(models)
        sources = []
        for kind in _SOURCES:
            source = kind(layout)
            try:
                source.look()
                sources.append(source)
            except Exception as error:  # the others know enough without it
                failed(kind.__name__.strip("_"), error)
        for node, name, parameter in layout.all_parameters():
            key = _key(node.path, name)
            if key in layout.parameters:
                continue
            for source in sources:
                try:
                    entry = source.entry(node, name, parameter)
                except Exception as error:
                    failed(key, error)
                    continue
                if entry is not None:
                    if entry:
                        layout.parameters[key] = entry
                    break
        try:
            _note_names(layout)
        except Exception as error:
            failed("names of modules", error)
        return _as_object(layout)


def _as_object(layout):
    result = {"schema_version": SCHEMA_VERSION, "rank": layout.rank, "world_size": layout.world_size}
    if layout.frameworks:
        result["framework"] = " + ".join(layout.frameworks)
    result["groups"] = layout.groups
    if layout.process_groups:
        result["process_groups"] = layout.process_groups
    data = layout.place_in("dp")
    if data and data[1] > 1:
        result["batch"] = {"part": data[0], "parts": data[1]}
    result.update(layout.more)
    result["parameters"] = layout.parameters
    if layout.layers:
        result["layers"] = layout.layers
    if layout.experts:
        result["experts"] = layout.experts
    return result


def text_of(content):
    """One line per key, and per parameter."""
    lines = []
    for key, value in content.items():
        if key in ("parameters", "layers", "experts") and value:
            inner = ",\n".join("  %s: %s" % (json.dumps(name), json.dumps(entry)) for name, entry in value.items())
            lines.append(" %s: {\n%s\n }" % (json.dumps(key), inner))
        else:
            lines.append(" %s: %s" % (json.dumps(key), json.dumps(value)))
    return "{\n%s\n}\n" % ",\n".join(lines)
