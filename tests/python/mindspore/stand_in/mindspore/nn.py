"""Cells."""
import numpy

from mindspore import ops
from mindspore._tensor import Parameter, Tensor


class Cell:
    def __init__(self):
        self.__dict__.update(_params={}, _cells={}, _primitives={})

    def __setattr__(self, name, value):
        if isinstance(value, Parameter):
            self._params[name] = value
        elif isinstance(value, Cell):
            self._cells[name] = value
        else:
            if isinstance(value, ops.Primitive):
                self._primitives[name] = value
            object.__setattr__(self, name, value)

    def __getattr__(self, name):
        for held in ("_params", "_cells"):
            if name in self.__dict__.get(held, ()):
                return self.__dict__[held][name]
        raise AttributeError(name)

    def __call__(self, *args, **kwargs):
        return self.construct(*args, **kwargs)

    def cells_and_names(self, prefix=""):
        yield prefix, self
        for name, cell in self._cells.items():
            yield from cell.cells_and_names(prefix + "." + name if prefix else name)

    def parameters_and_names(self, name_prefix="", expand=True):
        for prefix, cell in self.cells_and_names(name_prefix) if expand else [(name_prefix, self)]:
            for name, parameter in cell._params.items():
                yield prefix + "." + name if prefix else name, parameter

    def trainable_params(self):
        return [parameter for _, cell in self.cells_and_names()
                for parameter in cell._params.values() if parameter.requires_grad]


class Dense(Cell):
    def __init__(self, inputs, outputs):
        super().__init__()
        weight = numpy.linspace(-1, 1, inputs * outputs, dtype="float32")
        self.weight = Parameter(weight.reshape(outputs, inputs), "weight")
        self.bias = Parameter(numpy.zeros(outputs, "float32"), "bias")
        self.shape_op = ops.Shape()
        self.matmul = ops.MatMul(False, True)
        self.bias_add = ops.BiasAdd()

    def construct(self, x):
        self.shape_op(x)
        return self.bias_add(self.matmul(x, self.weight), self.bias)


class ReLU(Cell):
    def __init__(self):
        super().__init__()
        self.relu = ops.ReLU()

    def construct(self, x):
        return self.relu(x)


class Dropout(Cell):
    def __init__(self, p=0.5):
        super().__init__()
        self.p = p

    def construct(self, x):
        return Tensor(x.data * 0)


class Optimizer(Cell):
    def __init__(self, learning_rate, parameters):
        super().__init__()
        self.parameters = list(parameters)


class SGD(Optimizer):
    def __init__(self, params, learning_rate=0.1):
        super().__init__(learning_rate, params)

    def construct(self, gradients):
        for parameter, gradient in zip(self.parameters, gradients):
            ops.assign(parameter, parameter.data - 0.1 * gradient.data)
        return True
