"""One operator twice: on the device in the dtypes that were recorded, and on the CPU in wider ones, forward and backward."""
import contextlib
import runpy
import types

import frames
import torch

import npu_formulas

# By what stands in front of an operator's name: nothing is ever looked up in anything else.
SCOPES = {"Functional": torch.nn.functional, "Torch": torch, "Torch.linalg": torch.linalg, "Tensor": torch.Tensor, "Aten": torch.ops.aten}
BUILT_IN = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)
DEFINED_IN = ("torch.functional", "torch.nn.functional", "torch._jit_internal", "torch._linalg_utils", "torch._tensor")
PACKET = torch._ops.OpOverloadPacket  # pylint: disable=protected-access
CONSTANTS = {"torch.dtype": torch.dtype, "torch.memory_format": torch.memory_format, "torch.layout": torch.layout}
# What the program decides about a call, as bits.
WITH_GRADIENTS, DETACHED, BACKWARD, UNKNOWN = 1, 2, 4, 8
RAISED = {torch.float16, torch.bfloat16, torch.float32}
DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
MULTIPLE = "Multiple backward is not supported."


def refuse_unlisted(kind, api, vocabulary):
    if api not in vocabulary.get(kind, ()):
        raise RuntimeError("%s.%s is not on the list of operators that a file may name" % (kind, api))


def is_operator(function):
    """Whether it computes, by what defines it: PyTorch's own functions load, save and compile as well."""
    module = getattr(function, "__module__", None) or "torch"
    if isinstance(function, types.FunctionType):
        return module in DEFINED_IN or module.split(".")[0] == "torch_npu"
    return isinstance(function, BUILT_IN) and module.split(".")[0] in ("torch", "torch_npu")


def resolve(kind, api, vocabulary):
    """The listed operator; never a module, a class, or a function that is not PyTorch's."""
    refuse_unlisted(kind, api, vocabulary)
    before, _, name = api.rpartition(".")
    scope = SCOPES.get("%s.%s" % (kind, before) if before else kind)
    if scope is None:
        raise RuntimeError("there is no scope %s for operators of type %s" % (before, kind))
    function = getattr(scope, name)
    if not (isinstance(function, PACKET) if kind == "Aten" else is_operator(function)):
        raise RuntimeError("%s.%s is not an operator of PyTorch here" % (kind, api))
    return function


class Values:
    """Arguments of the framework's kinds, by names that the program has sent."""

    def __init__(self, vocabulary):
        self._vocabulary = vocabulary

    def constant(self, kind, name):
        value = getattr(torch, name, None) if name in self._vocabulary.get(kind, ()) and kind in CONSTANTS else None
        if not isinstance(value, CONSTANTS.get(kind, ())):
            raise ValueError("%s is not a %s here" % (name, kind))
        return value

    def dtype(self, name):
        return self.constant("torch.dtype", name)

    @staticmethod
    def size(values):
        if not all(isinstance(value, int) for value in values):
            raise ValueError("a size is not an integer")
        return torch.Size(values)

    def numpy_scalar(self, name, value):
        import numpy
        kind = getattr(numpy, name, None) if name in self._vocabulary.get("numpy", ()) else None
        if kind is bool:
            kind = numpy.bool_
        if not isinstance(kind, type) or not issubclass(kind, numpy.generic) or not isinstance(value, (bool, int, float)):
            raise ValueError("numpy.%s of %s is not a number" % (name, type(value).__name__))
        return kind(value)


def keep_everything():
    """Nothing is dropped in this process, so that both runs can be compared."""
    for name in DROPOUTS:
        original = getattr(torch.nn.functional, name, None)
        if original is not None:
            def without_loss(input, p=0.5, training=True, inplace=False, original=original):  # pylint: disable=redefined-builtin
                return original(input, 0.0, training, inplace)
            without_loss.__module__ = original.__module__
            setattr(torch.nn.functional, name, without_loss)


def choose_device(wanted, number, jit):
    """(name of the device, synchronise)"""
    if wanted in ("auto", "npu"):
        try:
            import torch_npu
            if torch_npu.npu.is_available():
                torch_npu.npu.set_compile_mode(jit_compile=jit)
                torch_npu.npu.config.allow_internal_format = jit
                torch_npu.npu.set_device(number)
                return "npu:%d" % number, torch_npu.npu.synchronize
            failure = "torch_npu finds no NPU"
        except ImportError as error:
            failure = str(error)
        if wanted == "npu":
            raise RuntimeError("no NPU: %s" % failure)
    if wanted in ("auto", "cuda"):
        if torch.cuda.is_available():
            torch.cuda.set_device(number)
            return "cuda:%d" % number, torch.cuda.synchronize
        if wanted == "cuda":
            raise RuntimeError("no GPU: torch.cuda.is_available() is False")
    return "cpu", lambda: None


class Runner(Values):
    """Answers calls. `references`: a Python file of the user with a dict `operators`, see docs/commands/run_ut.md."""

    def __init__(self, device, number, jit, strict, references, vocabulary):
        super().__init__(vocabulary)
        self.framework = "PyTorch %s" % torch.__version__
        self.device, self._synchronise = choose_device(device, number, jit)
        self.compiles = jit and self.device.startswith("npu")  # with programs of its own
        self._strict = strict
        self._own = {}
        self._load_references(references)
        keep_everything()

    def _load_references(self, references):
        if references:
            self._own = runpy.run_path(references).get("operators")
            if not isinstance(self._own, dict):
                raise TypeError("%s defines no dict named operators" % references)

    def take_memory(self, arguments, results):
        self._arguments, self._results = arguments, results

    # Tensors and the shared memory.

    def tensor(self, dtype, shape, offset, requires_grad):
        dtype = self.dtype(dtype)
        count = 1
        for size in shape:
            count *= size
        if count == 0:
            tensor = torch.empty(shape, dtype=dtype)
        else:
            source = self._arguments.map_whole()
            tensor = torch.frombuffer(source, dtype=dtype, count=count, offset=offset).clone().reshape(shape)
        if requires_grad and (dtype.is_floating_point or dtype.is_complex):
            tensor.requires_grad_(True)
        return tensor

    def _write_tensor(self, value):
        if not isinstance(value, torch.Tensor):
            return None
        value = value.detach()
        if value.is_sparse or value.is_quantized:
            value = value.to_dense() if value.is_sparse else value.dequantize()
        value = value.cpu().contiguous().resolve_conj().resolve_neg()
        size = value.numel() * value.element_size()
        offset, target = self._results.take(size)
        if size:
            torch.frombuffer(target, dtype=value.dtype, count=value.numel(), offset=offset).copy_(value.reshape(-1))
        return str(value.dtype)[6:], list(value.shape), offset

    # One call.

    def answer(self, payload):
        self._results.clear()
        writer = frames.Writer(self._write_tensor)
        try:
            message, values = self._run(payload)
            writer.byte(0)
            writer.text(message)
            for value in values:
                writer.value(value)
        except Exception as error:  # pylint: disable=broad-except
            writer = frames.Writer(self._write_tensor)
            writer.byte(1)
            writer.text(str(error) or type(error).__name__)
        return writer.frame(frames.ANSWER)

    def _callables(self, kind, api):
        """(on the CPU, on the device); (None, None) where the Python tool runs nothing."""
        own = self._own_of(kind, api)
        if own is not None:
            reference = own["reference"] if isinstance(own, dict) else own
            on_device = own.get("device") if isinstance(own, dict) else None
            return reference, on_device or (self._npu(api) if kind == "NPU" else None) or reference
        if kind in SCOPES:
            function = resolve(kind, api, self._vocabulary)
            return function, function
        if kind == "NPU":
            reference = npu_formulas.FORWARD.get(api)
            if reference is None:
                raise RuntimeError("There is not bench function %s" % api)
            return reference, self._npu(api) or reference
        if self._strict:
            raise RuntimeError("there is no function for operators of type %s" % kind)
        return None, None

    def _own_of(self, kind, api):
        return self._own.get("%s.%s" % (kind, api), self._own.get(api))

    def _npu(self, api):
        if not self.device.startswith("npu"):
            return None
        refuse_unlisted("NPU", api, self._vocabulary)
        import torch_npu
        function = getattr(torch_npu, api)
        if not isinstance(function, PACKET) and not is_operator(function):
            raise RuntimeError("NPU.%s is not an operator of torch_npu here" % api)
        return function

    def _run(self, payload):
        reader = frames.Reader(payload, self)
        kind, api, flags = reader.text(), reader.text(), reader.byte()
        raised, autocast, gradient_raised, index = reader.text(), reader.text(), reader.text(), reader.unpack(frames.I64)
        message = reader.text()
        args, kwargs, gradients = reader.value(), reader.value(), reader.value()
        if flags & UNKNOWN and self._own_of(kind, api) is None:
            raise RuntimeError(message)
        on_cpu, on_device = self._callables(kind, api)
        if on_cpu is None:
            return message, (None, None, [], [])
        bench_args, bench_kwargs = self._prepare(args, kwargs, flags, self.dtype(raised) if raised else None, "cpu")
        device_args, device_kwargs = self._prepare(args, kwargs, flags, None, self.device)
        bench = on_cpu(*bench_args, **bench_kwargs)
        with self._autocast(autocast):
            device = on_device(*device_args, **device_kwargs)
        self._synchronise()
        if api == "npu_fusion_attention":
            bench = bench[0] if isinstance(bench, (list, tuple)) else bench
            device = device[0] if isinstance(device, (list, tuple)) else device
        if not flags & BACKWARD:
            return message, (bench, device, [], [])
        outputs = self._outputs_of_gradients(bench, device, gradients, index)
        if outputs is None:
            return message + MULTIPLE, (bench, device, [], [])
        for output, gradient, on_bench in outputs:
            if gradient is None:
                raise RuntimeError("the gradient of the output was not recorded")
            if on_bench and gradient_raised and gradient.dtype in RAISED:
                gradient = gradient.to(self.dtype(gradient_raised))
            output.backward(gradient.clone() if on_bench else gradient.clone().to(self.device), retain_graph=len(outputs) > 2)
        self._synchronise()
        more = [bench_kwargs, device_kwargs] if self._strict else [{}, {}]
        return message, (bench, device, self._gradients(bench_args, more[0]), self._gradients(device_args, more[1]))

    def _outputs_of_gradients(self, bench, device, gradients, index):
        """(output, its gradient, whether it is the bench's) of those that have one; None where that is unknown."""
        if not isinstance(bench, (list, tuple)):
            return [(bench, gradients[0], True), (device, gradients[0], False)]
        if index >= 0:
            return [(bench[index], gradients[0], True), (device[index], gradients[0], False)]
        if not self._strict:
            return None
        chosen = []
        for place, gradient in enumerate(gradients):
            if place < len(bench) and isinstance(gradient, torch.Tensor) and bench[place].requires_grad:
                chosen += [(bench[place], gradient, True), (device[place], gradient, False)]
        return chosen or None

    def _autocast(self, dtype):
        kind = self.device.split(":")[0]
        # CPUs know it for bfloat16 alone, by all versions of PyTorch.
        if not dtype or (kind == "cpu" and dtype != "bfloat16"):
            return contextlib.nullcontext()
        return torch.autocast(kind, dtype=self.dtype(dtype))

    def _prepare(self, args, kwargs, flags, raised, device):
        def one(value, detached):
            if isinstance(value, torch.Tensor):
                return self._prepare_tensor(value, flags, raised, device, detached)
            if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
                return type(value)(one(item, detached) for item in value)
            if isinstance(value, dict):
                return {key: one(item, detached) for key, item in value.items()}
            return device if value is frames.Device else value
        detached = bool(flags & DETACHED)
        named = {key: one(value, detached and key != "out") for key, value in kwargs.items()
                 if not (value is frames.Device and device == "cpu" and self.device != "cpu")}
        return [one(value, detached) for value in args], named

    @staticmethod
    def _prepare_tensor(value, flags, raised, device, detached):
        wanted = value.requires_grad and bool(flags & WITH_GRADIENTS)
        copy = value.clone().detach() if detached else value.detach().clone()
        if device != "cpu":
            copy = copy.to(device)
        if raised is not None and (copy.dtype in RAISED or "float8" in str(copy.dtype)) and copy.dtype != raised:
            copy = copy.to(raised)
        if not wanted:
            return copy
        copy.requires_grad_(True)
        copy = copy * 1  # operators that work in place may not change a leaf
        copy.retain_grad()
        return copy

    def _gradients(self, args, kwargs):
        found = []

        def collect(value):
            if isinstance(value, torch.Tensor):
                found.append(value.grad if value.requires_grad else None)
            elif isinstance(value, (list, tuple)):
                for item in value:
                    collect(item)
        collect(args)
        collect(list(kwargs.values()))
        return found
