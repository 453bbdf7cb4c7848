"""Operators of MindSpore's mint, which are named as PyTorch's are: PyTorch on the CPU, in the recorded dtypes, is the bench.

Where the dump holds the outputs nothing else is run; otherwise MindSpore runs the operator.
"""
import types

import operators
import torch

BACKWARD, UNKNOWN, RECORDED = 4, 8, 16
operators.SCOPES.update({"Mint": torch, "MintFunctional": torch.nn.functional})


class Runner(operators.Runner):
    """As its base, for calls of MindSpore. `device`: "recorded" or "mindspore"."""

    def __init__(self, device, references, vocabulary):
        operators.Values.__init__(self, vocabulary)
        self._own = {}
        self._strict = False
        self._synchronise = lambda: None
        self._load_references(references)
        operators.keep_everything()
        self.device = device
        self.compiles = False
        self.framework = "PyTorch %s" % torch.__version__
        if device == "mindspore":
            import mindspore
            self.compiles = mindspore.get_context("device_target") == "Ascend"
            self._mindspore = mindspore
            self.framework += ", MindSpore %s" % mindspore.__version__

    def _run(self, payload):
        reader = operators.frames.Reader(payload, self)
        kind, api, flags = reader.text(), reader.text(), reader.byte()
        for _ in range(3):
            reader.text()
        reader.unpack(operators.frames.I64)
        message = reader.text()
        args, kwargs, gradients = reader.value(), reader.value(), reader.value()
        kwargs = {key: value for key, value in kwargs.items() if value is not operators.frames.Device}
        own = self._own_of(kind, api)
        if flags & UNKNOWN and own is None:
            raise RuntimeError(message)
        reference = own["reference"] if isinstance(own, dict) else own
        function = reference or operators.resolve(kind, api, self._vocabulary)
        bench = function(*args, **kwargs)
        bench_gradients = []
        if flags & BACKWARD:
            bench_gradients = self._torch_gradients(bench, args, kwargs, gradients)
        if flags & RECORDED:
            return message, (bench, None, bench_gradients, [])
        tested, tested_gradients = self._run_mindspore(kind, api, args, kwargs, gradients if flags & BACKWARD else None)
        return message, (bench, tested, bench_gradients, tested_gradients)

    @staticmethod
    def _inputs(args, kwargs):
        found = []

        def collect(value):
            if isinstance(value, torch.Tensor) and value.requires_grad:
                found.append(value)
            elif isinstance(value, (list, tuple)):
                for item in value:
                    collect(item)
        collect(args)
        collect(list(kwargs.values()))
        return found

    def _torch_gradients(self, bench, args, kwargs, gradients):
        outputs = list(bench) if isinstance(bench, (list, tuple)) else [bench]
        pairs = [(output, gradient) for output, gradient in zip(outputs, gradients)
                 if isinstance(output, torch.Tensor) and output.requires_grad and isinstance(gradient, torch.Tensor)]
        inputs = self._inputs(args, kwargs)
        if not pairs or not inputs:
            return []
        found = torch.autograd.grad([pair[0] for pair in pairs], inputs, [pair[1].to(pair[0].dtype) for pair in pairs],
                                    allow_unused=True)
        return list(found)

    # MindSpore itself. Values travel through NumPy; bfloat16, which NumPy lacks, as float32.

    def _to_mindspore(self, value):
        if isinstance(value, torch.Tensor):
            plain = value.detach()
            if plain.dtype == torch.bfloat16:
                return self._mindspore.Tensor(plain.float().numpy()).astype(self._mindspore.bfloat16)
            return self._mindspore.Tensor(plain.numpy())
        if isinstance(value, (list, tuple)):
            return type(value)(self._to_mindspore(item) for item in value)
        if isinstance(value, torch.dtype):
            return getattr(self._mindspore, str(value)[6:])  # its own kinds have the names of PyTorch's
        return value

    def _to_torch(self, value):
        if isinstance(value, self._mindspore.Tensor):
            if value.dtype == self._mindspore.bfloat16:
                return torch.from_numpy(value.astype(self._mindspore.float32).asnumpy()).to(torch.bfloat16)
            return torch.from_numpy(value.asnumpy())
        if isinstance(value, (list, tuple)):
            return [self._to_torch(item) for item in value]
        return value

    def _run_mindspore(self, kind, api, args, kwargs, gradients):
        mindspore = self._mindspore
        operators.refuse_unlisted(kind, api, self._vocabulary)
        scope = {"Mint": mindspore.mint, "MintFunctional": mindspore.mint.nn.functional, "Tensor": mindspore.Tensor,
                 "Functional": mindspore.ops}[kind]
        function = getattr(scope, api)  # no name of MindSpore's lists has parts
        package = (getattr(function, "__module__", None) or "mindspore").split(".")[0]
        if not callable(function) or isinstance(function, (type, types.ModuleType)) or package != "mindspore":
            raise RuntimeError("%s.%s is not an operator of MindSpore here" % (kind, api))
        own_args = [self._to_mindspore(value) for value in args]
        own_kwargs = {key: self._to_mindspore(value) for key, value in kwargs.items()}
        tested = self._to_torch(function(*own_args, **own_kwargs))
        if gradients is None:
            return tested, []
        places = [place for place, value in enumerate(args) if isinstance(value, torch.Tensor) and value.requires_grad]

        def of_floats(*floats):
            whole = list(own_args)
            for place, value in zip(places, floats):
                whole[place] = value
            return function(*whole, **own_kwargs)
        _, pull_back = mindspore.ops.vjp(of_floats, *[own_args[place] for place in places])
        found = pull_back(*[self._to_mindspore(gradient) for gradient in gradients])
        return tested, self._to_torch(list(found) if isinstance(found, (list, tuple)) else [found])
