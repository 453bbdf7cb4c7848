"""Hostile dumps: every way in which a file can name something to run, to open or to look up.

An attack is a call of a dump, `name -> record`. Its name or one of its arguments leads out of what operators are, and if anything
believes it, a *canary* dies: a file appears, a connection arrives, or a secret variable turns up in a result (canaries.py).
`calls(framework, canaries)` crosses

    names      kinds of calls x paths that leave the operators (modules, built-ins, private and special attributes)
    shapes     what a function that does harm takes: one text, a list, a path with numbers, keywords
    arguments  types that stand for objects x values that are functions x positions in which an argument can be

Names and values repeat in many calls on purpose: a check that looks at the first argument alone would pass a shorter table.
`mutations(seed, count)` makes calls of operators that exist with arguments drawn from both worlds.
"""
import itertools
import json
import os
import random

# Attributes that lead from a module or class to code, files or processes. Joined behind every kind of call.
PATHS = (
    "os.system", "os.popen", "os.mkdir", "os.mkfifo", "os.putenv", "os.getenv", "os.execv", "sys.modules", "sys.exit", "builtins.open", "builtins.exec",
    "builtins.eval", "subprocess.run", "subprocess.getoutput", "importlib.import_module", "importlib.os.system", "warnings.sys.modules",
    "torch.os.system", "functional.torch.os.system", "nn.functional.torch.os.system", "random.os.system", "functional.warnings.sys.exit",
    "save", "load", "jit.load", "jit.save", "hub.load", "hub.download_url_to_file", "hub.os.system", "package.PackageImporter", "compile", "export.save",
    "ops.load_library", "classes.load_library", "ops.aten.from_file", "_C.import_ir_module", "_C._jit_set_profiling_mode", "utils.cpp_extension.load_inline",
    "utils.data.DataLoader", "utils.dlpack.from_dlpack", "serialization.load", "serialization.os.mkdir", "_utils_internal.os.system", "_tensor_str.torch.os.system",
    "multiprocessing.spawn", "distributed.init_process_group", "distributed.TCPStore", "autograd.profiler.profile", "profiler.profile", "onnx.export",
    "fx.symbolic_trace", "from_file", "_weight_norm.__globals__", "typename", "set_default_tensor_type", "set_printoptions", "import_ir_module", "inspect.os.system",
    "__builtins__", "__class__", "__dict__", "__init__", "__getattribute__", "__reduce_ex__", "__setstate__", "__subclasshook__", "__loader__.load_module",
    "__spec__.loader.exec_module", "__builtins__.exec", "__init__.__globals__", "apply_", "map_", "map2_", "register_hook", "numpy", "storage", "set_", "to_file", "tofile",
    "data_ptr", "share_memory_", "backward", "vmap", "cond", "func.vmap", "_assert", "handle_torch_function", "overrides.handle_torch_function", "boolean_dispatch",
    "add.__self__", "add.__class__.__base__.__subclasses__", "add.__call__", "softmax.__globals__", "gelu.__code__", "relu.__globals__.get",
)
KINDS = {
    "pytorch": ("Torch", "Functional", "Tensor", "Aten", "VF", "NPU", "Distributed", "NpuDistributed", "MindSpeed", "Jit", "Module", "Builtins", "Os", "torch", "_C"),
    "mindtorch": ("Torch", "Functional", "Tensor", "Distributed", "Mint", "Os"),
    "mindspore": ("Mint", "MintFunctional", "Functional", "Tensor", "MintDistributed", "Jit", "Primitive", "Ops", "Torch"),
}
# Operators that exist and take a function, a path, a type or text.
OPERATORS = {
    "Functional.triplet_margin_with_distance_loss": "distance_function", "Torch.einsum": "out", "Tensor.to": "dtype", "Tensor.type": "dtype", "Tensor.view": "dtype",
    "Torch.zeros_like": "dtype", "Torch.full": "dtype", "Torch.arange": "out", "Torch.norm": "p", "Functional.softmax": "dtype", "Functional.pad": "mode",
    "Functional.interpolate": "mode", "Tensor.clone": "memory_format", "Tensor.contiguous": "memory_format", "Torch.empty_like": "layout", "Torch.tensor": "device",
    "Functional.gelu": "approximate", "Functional.multi_head_attention_forward": "average_attn_weights", "Tensor.__getitem__": "key", "Tensor.__setitem__": "value",
    "Torch.add": "alpha", "Torch.sum": "dim", "Torch.bernoulli": "generator", "Torch.div": "rounding_mode", "Mint.add": "alpha", "Mint.sum": "dim",
    "MintFunctional.softmax": "dtype", "Mint.full": "dtype", "Aten.add": "alpha", "Aten._to_copy": "dtype", "NPU.npu_dtype_cast": "dtype",
}
# What claims to be a plain object of a framework, and is a function.
TYPES = (
    "torch.dtype", "torch.memory_format", "torch.layout", "torch.device", "torch.Size", "torch.qscheme", "torch.Generator", "torch.finfo", "torch.Tensor", "torch.storage",
    "mindspore.dtype", "mindspore.common.dtype", "numpy.dtype", "numpy.ufunc", "slice", "ellipsis", "range", "function", "builtin_function_or_method", "type", "module",
    "class", "method", "partial", "code", "getattr", "object", "str", "ProcessGroup", "ReduceOp",
)
FUNCTIONS = (
    "torch.save", "torch.load", "torch.hub.load", "torch.os.system", "torch.jit.load", "torch.nn.functional.torch.os.system", "torch.compile", "os.system", "save", "load",
    "builtins.exec", "builtins.open", "numpy.load", "numpy.fromfile", "torch.utils.cpp_extension.load", "torch.float32.__class__.__base__", "torch.Tensor", "torch",
    "torch.serialization.load", "torch.add", "lambda: 0", "__import__('os').system('true')",
)
NUMPY = (
    "loadtxt", "load", "fromfile", "genfromtxt", "save", "savetxt", "savez", "memmap", "lib.format.open_memmap", "lib.npyio.loadtxt", "DataSource", "ctypeslib.load_library",
    "os.system", "f2py.compile", "distutils.exec_command", "testing.rundocs", "vectorize", "frompyfunc", "source", "lookfor", "show_config", "ndarray", "dtype", "array",
    "fromstring", "frombuffer", "fromregex", "generic", "void", "object_", "record", "require", "core.records.fromfile", "random.seed", "__builtins__", "float64.__class__",
)


def text(value):
    return {"type": "str", "value": value}


def number(value=1):
    return {"type": "int", "value": value}


def tensor(name="input.pt", shape=(2, 2)):
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": list(shape), "Max": 1.0, "Min": -1.0, "Mean": 0.0, "Norm": 1.0, "requires_grad": False, "data_name": name}


class Table:
    """Calls under names that no two have, each with the marker that dies if it is believed."""

    def __init__(self, canaries):
        self.data = {}
        self._canaries = canaries
        self._counts = {}

    def add(self, name, make):
        """`make(marker)` gives (arguments, keywords); marker.path, marker.command and marker.url do harm."""
        number_of_call = self._counts.get(name, 0)
        self._counts[name] = number_of_call + 1
        entry = "%s.%d.forward" % (name, number_of_call)
        arguments, keywords = make(self._canaries.marker(entry))
        self.data[entry] = {"input_args": arguments, "input_kwargs": keywords, "output": [tensor("output.pt")]}


SHAPES = (
    lambda marker: ([text(marker.command)], {}),
    lambda marker: ([text(marker.path)], {}),
    lambda marker: ([text(marker.path), {"type": "bool", "value": True}, number(64)], {}),
    lambda marker: ([[text("touch"), text(marker.path)]], {}),
    lambda marker: ([tensor(), text(marker.path)], {}),
    lambda marker: ([text(marker.url), text(marker.path)], {}),
    lambda marker: ([text(marker.path), text("w")], {"filename": text(marker.path)}),
)
POSITIONS = (
    lambda value, name: ([value, text("x")], {}),
    lambda value, name: ([tensor(), value], {}),
    lambda value, name: ([tensor()], {name: value}),
    lambda value, name: ([[tensor(), [value]]], {}),
    lambda value, name: ([tensor(), {"key": {"inner": value}}], {}),
    lambda value, name: ([tensor()], {name: [value, {"deep": value}]}),
    lambda value, name: ([tensor(), {"type": "slice", "value": [value, None, None]}], {}),
    lambda value, name: ([tensor(), {"type": "torch.Size", "value": [value]}], {}),
    lambda value, name: ([tensor(), tensor(), tensor()], {name: value}),
)


def hostile_values(marker):
    """Records of arguments that are not what they claim."""
    for kind in TYPES:
        for function in FUNCTIONS:
            yield {"type": kind, "value": function}
    for name in NUMPY:
        for value in (marker.path, marker.url):
            yield {"type": "numpy." + name, "value": value}
    for kind in ("int", "float", "bool", "NoneType"):
        yield {"type": kind, "value": marker.command}
    yield {"class_type": "os.system", "value": marker.command}
    yield {"type": "torch.memory_format", "format": "torch.save"}
    yield {"type": "torch.dtype", "value": ["torch.save"]}
    yield {"type": "torch.dtype", "value": {"type": "torch.dtype", "value": "torch.save"}}


def name_calls(framework, canaries, every=1):
    table = Table(canaries)
    for place, (kind, path) in enumerate(itertools.product(KINDS[framework], PATHS)):
        if place % every == 0:
            for shape in SHAPES:
                table.add("%s.%s" % (kind, path), shape)
    return table.data


def argument_calls(canaries, every=1):
    """Each value in one position of one operator; positions and operators turn, so that all pairs of two appear."""
    table = Table(canaries)
    operators = list(OPERATORS.items())
    values = list(enumerate(hostile_values(canaries.marker("argument"))))
    for place, value in values[::every]:
        for turn in range(3):
            operator, keyword = operators[(place * 5 + turn * 11) % len(operators)]
            position = POSITIONS[(place + turn * 4) % len(POSITIONS)]
            table.add(operator, lambda marker, position=position, value=value, keyword=keyword: position(value, keyword))
    # The ones that were believed once: a function among the keywords of an operator that calls it with three texts.
    for kind, function in itertools.product(TYPES, FUNCTIONS):
        table.add("Functional.triplet_margin_with_distance_loss", lambda marker, kind=kind, function=function: (
            [text("x"), text(marker.path), text("/x")], {"distance_function": {"type": kind, "value": function}}))
    return table.data


def tensor_file_calls(canaries):
    """Tensors whose files lie elsewhere, or are no tensors."""
    table = Table(canaries)
    for name in ("../../../../../../etc/passwd", "/etc/passwd", "/dev/zero", "../dump.json", "..", ".", "", "-1", "a\0b", "sub/x.pt", "~/x.pt", "$(touch %s).pt", "x.pt;touch y",
                 "file:///etc/passwd", "http://127.0.0.1/x.pt", "fifo.pt", "link.pt", "evil.pt"):
        table.add("Torch.add", lambda marker, name=name: ([tensor(name.replace("%s", marker.path)), number()], {}))
    return table.data


def mutations(seed, count, framework, canaries, known):
    """Calls of operators that exist, `known` by kind, with arguments of both worlds."""
    rng = random.Random(seed)
    table = Table(canaries)
    values = list(hostile_values(canaries.marker("mutation")))

    def value(depth=0):
        kind = rng.randrange(9)
        if kind < 2:
            return tensor(shape=[rng.randrange(4) for _ in range(rng.randrange(4))])
        if kind < 4:
            return rng.choice(values)
        if kind == 4 and depth < 3:
            return [value(depth + 1) for _ in range(rng.randrange(3))]
        if kind == 5 and depth < 3:
            return {rng.choice(("key", "type", "value", "dtype", "shape", "out")): value(depth + 1) for _ in range(rng.randrange(3))}
        if kind == 6:
            return text(rng.choice((canaries.marker("mutation").path, canaries.marker("mutation").command, "mean", "same", "i,j->ij", "../x")))
        return rng.choice((number(rng.choice((-1, 0, 1, 2, 2**31, -2**63))), {"type": "float", "value": rng.choice((0.5, "NaN", "1e999"))}, {"type": "bool", "value": True}, None))

    kinds = [(kind, name) for kind, names in known[framework].items() for name in names]
    for _ in range(count):
        kind, name = rng.choice(kinds)
        keywords = {rng.choice(("dim", "dtype", "out", "mode", "p", "memory_format", "generator", "device", "distance_function", "reduction")): value() for _ in range(rng.randrange(3))}
        arguments = [value() for _ in range(rng.randrange(5))]
        table.add("%s.%s" % (kind, name), lambda marker, arguments=arguments, keywords=keywords: (arguments, keywords))
    return table.data


def known_operators(repository):
    """Names of the project's own table by framework and kind of call, as dumps spell it."""
    with open(os.path.join(repository, "config", "captured_apis.json")) as file:
        listed = json.load(file)
    pytorch, mindspore = listed["pytorch"], listed["mindspore"]
    torch_kinds = {"Functional": pytorch["functional"], "Tensor": pytorch["tensor"], "Torch": pytorch["torch"], "NPU": pytorch["torch_npu"], "Aten": pytorch["tensor"]}
    return {"pytorch": torch_kinds, "mindtorch": torch_kinds,
            "mindspore": {"Functional": mindspore["ops"], "Tensor": mindspore["tensor"], "Mint": mindspore["mint.ops"], "MintFunctional": mindspore["mint.nn.functional"]}}


def write_dump(folder, framework, task, data):
    """A rank's folder; its dump.json. Tensor dumps get their files from a torch-made zip that the caller puts there."""
    tensors = os.path.join(folder, "dump_tensor_data")
    os.makedirs(tensors)
    path = os.path.join(folder, "dump.json")
    with open(path, "w") as file:
        json.dump({"task": task, "level": "L1", "framework": framework, "dump_data_dir": tensors if task == "tensor" else None, "data": data}, file)
    return path
