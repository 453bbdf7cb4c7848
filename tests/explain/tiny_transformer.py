"""A transformer of a few thousand weights in numpy: real forward passes, in which an engine can really go wrong.

forward() takes rows of token ids with their positions and what each token may attend to, and returns the logits of the next token and the
experts each token went to. `rounded` is applied to every intermediate result: the identity, or bf16() for the arithmetic of an accelerator.
"""
import numpy


def bf16(values):
    """To the nearest bfloat16, ties to even, as float32."""
    bits = numpy.ascontiguousarray(values, dtype=numpy.float32).view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(numpy.uint32).view(numpy.float32)


def fp16(values):
    return numpy.asarray(values, numpy.float32).astype(numpy.float16).astype(numpy.float32)


def exact(values):
    return values


class Shape:
    def __init__(self, vocabulary=96, width=32, layers=2, heads=2, experts=0, chosen=2):
        self.vocabulary, self.width, self.layers, self.heads, self.experts, self.chosen = vocabulary, width, layers, heads, experts, chosen


def make_weights(shape, random, sharpness=1.0):
    width = shape.width

    def matrix(rows, columns, scale=1.0):
        return (random.standard_normal((rows, columns)) * scale / numpy.sqrt(rows)).astype(numpy.float32)

    weights = {"embedding": random.standard_normal((shape.vocabulary, width)).astype(numpy.float32),
               "head": matrix(width, shape.vocabulary, 2.2 * sharpness)}
    for layer in range(shape.layers):
        for name in "qkvo":
            weights["%s%d" % (name, layer)] = matrix(width, width, 1.6 if name in "qk" else 1.0)
        experts = max(shape.experts, 1)
        weights["up%d" % layer] = numpy.stack([matrix(width, 2 * width, 1.4) for _ in range(experts)])
        weights["down%d" % layer] = numpy.stack([matrix(2 * width, width, 1.4) for _ in range(experts)])
        if shape.experts:
            weights["router%d" % layer] = matrix(width, shape.experts, 2.0)
    return weights


def train_step(weights, random, size):
    """Weights after an update: each matrix moves by `size` of its spread."""
    return {name: (value + size * value.std() * random.standard_normal(value.shape)).astype(numpy.float32) for name, value in weights.items()}


def normalised(x):
    return x / numpy.sqrt((x * x).mean(-1, keepdims=True) + 1e-6)


def position_codes(positions, width):
    rates = 1.0 / 50 ** (numpy.arange(width // 2) / (width // 2))
    angles = positions[..., None] * rates
    return numpy.concatenate([numpy.sin(angles), numpy.cos(angles)], -1).astype(numpy.float32)


def matmul_in_parts(a, b, parts, rounded):
    """The same product, summed in another order."""
    if parts == 1:
        return a @ b
    total = 0
    for part in numpy.array_split(numpy.arange(a.shape[-1]), parts):
        total = total + rounded(a[..., part] @ b[..., part, :])
    return total


def forward(shape, weights, ids, positions, attends, rounded=exact, parts=1, router_shift=None, activations=exact, skipped=None):
    """Logits [rows, length, vocabulary] and experts [rows, length, layers, chosen] (None without experts).

    attends: [rows, length, length], what each token may look at. router_shift(layer, scores): faulty scores of the router. activations: applied to
    the input of every expert or MLP, over the whole batch. skipped: per layer, an attention mask [rows, length, length] of what a fault hides.
    """
    rows, length = ids.shape
    size = shape.width // shape.heads
    x = rounded(weights["embedding"][ids] + position_codes(positions, shape.width))
    routes = []
    split = lambda values: values.reshape(rows, length, shape.heads, size).transpose(0, 2, 1, 3)
    for layer in range(shape.layers):
        y = rounded(normalised(x))
        q, k, v = (split(rounded(matmul_in_parts(y, weights["%s%d" % (name, layer)], parts, rounded))) for name in "qkv")
        scores = rounded(q @ k.transpose(0, 1, 3, 2) / numpy.sqrt(size))
        seen = attends if skipped is None else attends & ~skipped
        scores = numpy.where(seen[:, None], scores, -1e9)
        scores = numpy.exp(scores - scores.max(-1, keepdims=True))
        scores = rounded(scores / scores.sum(-1, keepdims=True))
        mixed = rounded(scores @ v).transpose(0, 2, 1, 3).reshape(rows, length, shape.width)
        x = rounded(x + rounded(matmul_in_parts(mixed, weights["o%d" % layer], parts, rounded)))
        y = activations(rounded(normalised(x)))
        if shape.experts:
            choice = rounded(matmul_in_parts(y, weights["router%d" % layer], parts, rounded))
            if router_shift is not None:
                choice = router_shift(layer, choice)
            best = numpy.argsort(-choice, -1, kind="stable")[..., :shape.chosen]
            routes.append(best)
            gates = numpy.take_along_axis(choice, best, -1)
            gates = numpy.exp(gates - gates.max(-1, keepdims=True))
            gates = rounded(gates / gates.sum(-1, keepdims=True))
            out = numpy.zeros_like(x)
            for expert in range(shape.experts):
                hidden = rounded(matmul_in_parts(y, weights["up%d" % layer][expert], parts, rounded))
                result = rounded(matmul_in_parts(rounded(hidden / (1 + numpy.exp(-hidden))), weights["down%d" % layer][expert], parts, rounded))
                out = out + result * (gates * (best == expert)).sum(-1, keepdims=True)
        else:
            hidden = rounded(matmul_in_parts(y, weights["up%d" % layer][0], parts, rounded))
            out = rounded(matmul_in_parts(rounded(hidden / (1 + numpy.exp(-hidden))), weights["down%d" % layer][0], parts, rounded))
        x = rounded(x + rounded(out))
    logits = matmul_in_parts(rounded(normalised(x)), weights["head"], parts, rounded)
    return logits.astype(numpy.float32), numpy.stack(routes, 2) if routes else None


def log_softmax(logits):
    logits = logits.astype(numpy.float64)
    top = logits.max(-1, keepdims=True)
    return logits - top - numpy.log(numpy.exp(logits - top).sum(-1, keepdims=True))


def causal(rows, length):
    return numpy.broadcast_to(numpy.tril(numpy.ones((length, length), bool)), (rows, length, length))
