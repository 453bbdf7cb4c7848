"""Functions and Primitives."""
import types

import numpy

from mindspore._tensor import Parameter, Tensor, record, values


class Primitive:
    def __init__(self, name):
        self.name = name


class MatMul(Primitive):
    def __init__(self):
        super().__init__("MatMul")

    def __call__(self, x, y):
        return matmul(x, y)


class HookBackward(Primitive):
    def __init__(self, hook):
        super().__init__("HookBackward")
        if not isinstance(hook, (types.FunctionType, types.MethodType)):
            raise TypeError("a hook is a function")
        self._hook = hook

    def __call__(self, tensor):
        if not isinstance(tensor, Tensor):
            raise TypeError("what is hooked is a Tensor")

        def backward(gradient):
            answer = self._hook((Tensor(gradient, tensor.dtype),))
            return (gradient if answer is None else answer.data,)

        return record([tensor], tensor.data, backward)


def matmul(x, y):
    return record([x, y], values(x) @ values(y),
                  lambda g: (g @ values(y).T, values(x).T @ g))


def relu(x):
    return record([x], numpy.maximum(x.data, 0), lambda g: (g * (x.data > 0),))


def add(x, y):
    return x + y


def cast(x, dtype):
    return x.astype(dtype)


def split(x, at):
    first, second = numpy.split(x.data, [at])
    zeros = numpy.zeros_like
    return (record([x], first, lambda g: (numpy.concatenate([g, zeros(second)]),)),
            record([x], second, lambda g: (numpy.concatenate([zeros(first), g]),)))


def assign(variable, value):
    if not isinstance(variable, Parameter):
        raise TypeError("only a Parameter can be assigned to")
    variable.data = values(value)
    return variable


def uniform(shape, minval, maxval, seed=None):
    return Tensor(numpy.random.default_rng(seed).uniform(minval.data, maxval.data, shape),
                  minval.dtype)


def normal(shape, mean, stddev, seed=None):
    return Tensor(numpy.random.default_rng(seed).normal(mean, stddev, shape).astype("float32"))


def rand(*size):
    return Tensor(numpy.random.default_rng().random(size).astype("float32"))


def randint(low, high, size, seed=None):
    return Tensor(numpy.random.default_rng(seed).integers(low, high, size))


def dropout(x, p=0.5, training=True):
    return record([x], x.data * 0, lambda g: (g * 0,))
