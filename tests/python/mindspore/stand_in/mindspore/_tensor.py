"""Tensors, their dtypes, and gradients from a tape that is walked back."""
import numpy


class _Type:
    def __init__(self, text, host):
        self.text, self.host = text, host

    def __repr__(self):
        return self.text


class Float(_Type):
    pass


class Int(_Type):
    pass


float16, float32, float64 = (Float("Float%d" % bits, "float%d" % bits) for bits in (16, 32, 64))
bfloat16 = Float("BFloat16", "float32")
int32, int64 = Int("Int32", "int32"), Int("Int64", "int64")
bool_, complex64 = Int("Bool", "bool"), Float("Complex64", "complex64")
_OF_HOST = {kind.host: kind for kind in (float16, float64, float32, int32, int64, bool_, complex64)}

_tape = None


class Tensor:
    def __init__(self, data, dtype=None):
        data = data.data if isinstance(data, Tensor) else numpy.asarray(data)
        if dtype is None:
            dtype = _OF_HOST[data.dtype.name]
        self.data = data.astype(dtype.host)
        self.dtype = dtype
        self.needs_gradient = False
        self.hooks = []

    shape = property(lambda self: self.data.shape)

    def asnumpy(self):
        if self.dtype is bfloat16:
            raise TypeError("numpy knows no bfloat16")
        return self.data

    def astype(self, dtype):
        return Tensor(self.data, dtype)

    def register_hook(self, hook):
        self.hooks.append(hook)
        return _Handle(self.hooks, hook)

    def __add__(self, other):
        return record([self, other], self.data + values(other), lambda g: (g, g))

    def __mul__(self, other):
        return record([self, other], self.data * values(other),
                      lambda g: (g * values(other), g * self.data))

    def __iadd__(self, other):
        self.data = self.data + values(other)
        return self

    def sum(self):
        return record([self], self.data.sum(), lambda g: (numpy.full(self.shape, g),))

    def __float__(self):
        return float(self.data.item())


class Parameter(Tensor):
    def __init__(self, data, name="", requires_grad=True):
        super().__init__(data)
        self.name, self.requires_grad = name, requires_grad


class _Handle:
    def __init__(self, hooks, hook):
        self._hooks, self._hook = hooks, hook

    def remove(self):
        if self._hook in self._hooks:
            self._hooks.remove(self._hook)


def values(value):
    return value.data if isinstance(value, Tensor) else value


def record(inputs, data, backward, dtype=None):
    """The result of an operation; backward(gradient) gives the gradients of its inputs."""
    dtype = dtype or next((item.dtype for item in inputs if isinstance(item, Tensor)), None)
    result = Tensor(data, dtype)
    if _tape is not None and any(isinstance(item, Tensor) and item.needs_gradient
                                 for item in inputs):
        result.needs_gradient = True
        _tape.append((inputs, result, backward))
    return result


def _run_hooks(tensor, gradient):
    for hook in list(tensor.hooks):
        answer = hook(Tensor(gradient, tensor.dtype))
        if answer is None:
            raise TypeError("a hook of a tensor gives a gradient back")
        gradient = answer.data
    return gradient


def _walk_back(tape, result):
    gradients = {id(result): numpy.ones_like(result.data)}
    leaves = {}
    for inputs, output, backward in reversed(tape):
        gradient = gradients.pop(id(output), None)
        if gradient is None:
            continue
        gradient = _run_hooks(output, gradient)
        for item, of_item in zip(inputs, backward(gradient)):
            if not isinstance(item, Tensor) or not item.needs_gradient:
                continue
            if of_item.shape != item.shape:  # what was broadcast
                of_item = of_item.reshape((-1,) + item.shape).sum(0)
            gradients[id(item)] = gradients.get(id(item), 0) + of_item
            leaves[id(item)] = item
    return {key: _run_hooks(leaves[key], value) if key in leaves else value
            for key, value in gradients.items()}


def value_and_grad(function, grad_position=0, weights=None):
    def run(*args):
        global _tape
        wanted = [] if grad_position is None else [args[grad_position]]
        wanted += weights or []
        _tape, before = [], _tape
        for tensor in wanted:
            tensor.needs_gradient = True
        try:
            result = function(*args)
            tape = _tape
        finally:
            _tape = before
        found = _walk_back(tape, result)
        for tensor in wanted:
            tensor.needs_gradient = False
        return result, tuple(Tensor(found.get(id(tensor), numpy.zeros(tensor.shape)), tensor.dtype)
                             for tensor in wanted)

    return run
