"""Tensors, their dtypes, and gradients along a graph of nodes that Python can look at."""
import functools
import itertools

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


class Recording:
    """Whether operations make nodes."""

    on = False


class _Node:
    """A node of the graph; `leaf` is the tensor it gives its gradient to, or None."""

    numbers = itertools.count()

    def __init__(self, backward, edges, results, leaf=None):
        self.backward, self.edges, self.results, self.leaf = backward, edges, results, leaf
        self.number = 2 ** 64 - 1 if leaf is not None else next(self.numbers)
        self.before, self.after = [], []


class BackwardNodePy:
    """What Python gets of a node: another object each time."""

    def __init__(self, node):
        self._node = node

    @property
    def next_functions(self):
        return tuple((None if edge is None else BackwardNodePy(edge[0]), edge[1] if edge else 0)
                     for edge in self._node.edges)

    def is_leaf(self):
        return self._node.leaf is not None

    def _sequence_nr(self):
        return self._node.number

    def _unique_id(self):
        return id(self._node)

    def register_prehook(self, hook):
        return _Handle(self._node.before, hook)

    def register_hook(self, hook):
        return _Handle(self._node.after, hook)


class _Handle:
    def __init__(self, hooks, hook):
        self._hooks, self._hook = hooks, hook
        hooks.append(hook)

    def remove(self):
        if self._hook in self._hooks:
            self._hooks.remove(self._hook)


class Tensor:
    _version = 0

    def __init__(self, data, dtype=None):
        data = data.data if isinstance(data, Tensor) else numpy.asarray(data)
        if dtype is None:
            dtype = _OF_HOST[data.dtype.name]
        self.data = data.astype(dtype.host)
        self.dtype = dtype
        self.hooks = []
        self._requires_grad = False
        self.node, self._output_index = None, 0

    shape = property(lambda self: self.data.shape)
    _grad_node = property(lambda self: None if self.node is None else BackwardNodePy(self.node))

    def asnumpy(self):
        if self.dtype is bfloat16:
            raise TypeError("numpy knows no bfloat16")
        return self.data

    def astype(self, dtype):
        return self if dtype is self.dtype else Tensor(self.data, dtype)

    def register_hook(self, hook):
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

    def set_data(self, data):
        self.data = values(data).astype(self.dtype.host)


def values(value):
    return value.data if isinstance(value, Tensor) else value


def record(inputs, data, backward, dtype=None):
    """The result of an operation; backward(gradient) gives the gradients of its inputs."""
    return record_several(inputs, [data], lambda gradients: backward(gradients[0]), dtype)[0]


def record_several(inputs, data, backward, dtype=None):
    """The results of an operation; backward(their gradients) gives those of its inputs."""
    dtype = dtype or next((item.dtype for item in inputs if isinstance(item, Tensor)), None)
    results = [Tensor(entry, dtype) for entry in data]
    if Recording.on and any(isinstance(item, Tensor) and item._requires_grad for item in inputs):
        edges = [(item.node, item._output_index) if isinstance(item, Tensor) and item._requires_grad
                 else None for item in inputs]
        node = _Node(backward, edges, results)
        for index, result in enumerate(results):
            result._requires_grad, result.node, result._output_index = True, node, index
    return results


def _run_hooks(tensor, gradient):
    for hook in list(tensor.hooks):
        answer = hook(Tensor(gradient, tensor.dtype))
        if answer is None:
            raise TypeError("a hook of a tensor gives a gradient back")
        gradient = answer.data
    return gradient


def _walk_back(result):
    """{id of a leaf's node: its gradient}"""
    nodes, todo = set(), [result.node] if result.node is not None else []
    while todo:
        node = todo.pop()
        if node not in nodes:
            nodes.add(node)
            todo += [edge[0] for edge in node.edges if edge is not None]
    arrived = {result.node: {result._output_index: numpy.ones_like(result.data)}}
    leaves = {}
    for node in sorted((node for node in nodes if node.leaf is None), key=lambda node: -node.number):
        given = [numpy.zeros(entry.shape, entry.dtype.host) if index not in arrived.get(node, {})
                 else _run_hooks(entry, arrived[node][index]) for index, entry in enumerate(node.results)]
        for hook in list(node.before):
            hook(tuple(Tensor(entry) for entry in given))
        sent = [None if edge is None else numpy.asarray(gradient)
                for edge, gradient in zip(node.edges, node.backward(given))]
        for hook in list(node.after):
            hook(tuple(None if entry is None else Tensor(entry) for entry in sent),
                 tuple(Tensor(entry) for entry in given))
        for edge, gradient in zip(node.edges, sent):
            if edge is None:
                continue
            to, index = edge
            shape = (to.leaf if to.leaf is not None else to.results[index]).shape
            if gradient.shape != shape:  # what was broadcast
                gradient = gradient.reshape((-1,) + shape).sum(0)
            place = arrived.setdefault(to, {})
            place[index] = place[index] + gradient if index in place else gradient
    for node in nodes:
        if node.leaf is not None and node in arrived:
            leaves[id(node)] = _run_hooks(node.leaf, arrived[node][0])
    return leaves


def value_and_grad(function, grad_position=0, weights=None):
    @functools.wraps(function)
    def run(*args):
        wanted = [] if grad_position is None else [args[grad_position]]
        wanted += weights or []
        before, Recording.on = Recording.on, True
        for tensor in wanted:
            tensor._requires_grad, tensor.node = True, _Node(None, (), (), tensor)
        nodes = [tensor.node for tensor in wanted]
        try:
            result = function(*args)
        finally:
            Recording.on = before
        found = _walk_back(result)
        for tensor in wanted:
            tensor._requires_grad, tensor.node = False, None
        gradients = tuple(Tensor(found.get(id(node), numpy.zeros(tensor.shape)), tensor.dtype)
                          for node, tensor in zip(nodes, wanted))
        # A single one comes alone; gradients of weights are a tuple of their own.
        by_weights = gradients[len(gradients) - len(weights or []):] if weights else ()
        alone = gradients[0] if grad_position is not None else None
        if weights is None:
            return result, alone
        return result, (by_weights if alone is None else (alone, by_weights))

    return run
