"""msprobe recheck on the operator tests of the ONNX project (Debian's libonnx-testdata): other formulas, by other people, and none of them may be called wrong.

The data are inputs and results of single operators. Where PyTorch has the same operator under the same definition, a case becomes a call of a dump.
"""
import csv
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import numpy
except ImportError:
    print("NumPy is not installed: skipped")
    sys.exit(77)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from onnx_files import graph, tensor  # noqa: E402  pylint: disable=wrong-import-position

MSPROBE = os.environ["MSPROBE"]
DATA = os.environ.get("MSPROBE_ONNX_DATA", "/usr/share/libonnx-testdata/data")
# One argument, the same name.
UNARY = {name: name.lower() for name in
         ("Abs Acos Acosh Asin Asinh Atan Atanh Ceil Cos Cosh Erf Exp Floor Log Neg Reciprocal Relu Selu Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Tan "
          "Tanh HardSwish").split()}
UNARY.update({"Not": "logical_not", "IsNaN": "isnan", "Identity": "clone"})
BINARY = {"Add": "add", "Sub": "sub", "Mul": "mul", "And": "logical_and", "Or": "logical_or", "Xor": "logical_xor", "Equal": "eq", "Greater": "gt",
          "GreaterOrEqual": "ge", "Less": "lt", "LessOrEqual": "le", "MatMul": "matmul", "Max": "maximum", "Min": "minimum", "Sum": "add"}
REDUCTIONS = {"ReduceSum": "sum", "ReduceMean": "mean", "ReduceMax": "amax", "ReduceMin": "amin", "ReduceLogSumExp": "logsumexp", "ReduceL1": "vector_norm",
              "ReduceL2": "vector_norm"}


class Different(Exception):
    """The operator is defined otherwise there."""


def need(condition):
    if not condition:
        raise Different


def symmetric(attributes, dims):
    need(attributes.get("auto_pad", "NOTSET") == "NOTSET")
    pads = attributes.get("pads") or [0] * (2 * dims)
    need(pads[:dims] == pads[dims:])
    return pads[:dims]


def reduction(operator, x, inputs, outputs, attributes):
    axes = inputs[1].tolist() if len(inputs) > 1 and inputs[1] is not None else attributes.get("axes")
    need(axes or not attributes.get("noop_with_empty_axes"))
    dims = sorted(axis % x.ndim for axis in axes) if axes else list(range(x.ndim))
    keeps = bool(attributes.get("keepdims", 1))
    order = {"ReduceL1": [1.0], "ReduceL2": [2.0]}.get(operator, [])
    return REDUCTIONS[operator], [x, *order, dims, keeps], outputs[:1]


def convolution(operator, x, inputs, outputs, attributes):
    dims = x.ndim - 2
    pads = symmetric(attributes, dims)
    bias = inputs[2] if len(inputs) > 2 else None
    stride, dilation = (attributes.get(name) or [1] * dims for name in ("strides", "dilations"))
    group = attributes.get("group") or 1
    if operator == "Conv":
        return f"conv{dims}d", [x, inputs[1], bias, stride, pads, dilation, group], outputs
    need("output_shape" not in attributes)
    return f"conv_transpose{dims}d", [x, inputs[1], bias, stride, pads, attributes.get("output_padding") or [0] * dims, group, dilation], outputs


def pooling(operator, x, inputs, outputs, attributes):
    dims = x.ndim - 2
    if operator == "GlobalAveragePool":
        return f"adaptive_avg_pool{dims}d", [x, [1] * dims], outputs
    sizes = [x, attributes["kernel_shape"], attributes.get("strides") or [1] * dims, symmetric(attributes, dims)]
    ceiling = bool(attributes.get("ceil_mode"))
    if operator == "AveragePool":
        return f"avg_pool{dims}d", [*sizes, ceiling, bool(attributes.get("count_include_pad"))], outputs
    return f"max_pool{dims}d", [*sizes, attributes.get("dilations") or [1] * dims, ceiling], outputs[:1]


def normalization(operator, x, inputs, outputs, attributes):
    epsilon = attributes.get("epsilon", 1e-5)
    if operator == "LayerNormalization":
        axis = attributes.get("axis", -1)
        return "layer_norm", [x, list(x.shape[axis:]), *inputs[1:3], *[None] * (3 - len(inputs)), epsilon], outputs[:1]
    if operator == "InstanceNormalization":
        return "instance_norm", [x, None, None, inputs[1], inputs[2], True, 0.1, epsilon], outputs
    return "batch_norm", [x, inputs[3], inputs[4], inputs[1], inputs[2], bool(attributes.get("training_mode")), 0.1, epsilon], outputs[:1]


def loss(operator, x, inputs, outputs, attributes):
    ignored = attributes.get("ignore_index")
    weight = inputs[2] if len(inputs) > 2 else None
    name = "nll_loss" if operator == "NegativeLogLikelihoodLoss" else "cross_entropy"
    return name, [x, inputs[1], weight, None, -100 if ignored is None else ignored, None, attributes.get("reduction", "mean")], outputs[:1]


def selection(operator, x, inputs, outputs, attributes):
    axis = attributes.get("axis", 0)
    if operator in ("ArgMax", "ArgMin"):
        need(not attributes.get("select_last_index"))
        return operator.lower(), [x, axis, bool(attributes.get("keepdims", 1))], outputs
    if operator == "TopK":
        return "topk", [x, int(inputs[1].reshape(-1)[0]), attributes.get("axis", -1), bool(attributes.get("largest", 1)), True], outputs
    index = inputs[1]
    need(index.size and (index >= 0).all())
    if operator == "Gather":
        need(index.ndim == 1)
        return "index_select", [x, axis, index], outputs
    if operator == "GatherElements":
        return "gather", [x, axis, index], outputs
    need(attributes.get("reduction", "none") in ("none", "add"))
    return "scatter_add" if attributes.get("reduction") == "add" else "scatter", [x, axis, index, inputs[2]], outputs


def moving(operator, x, inputs, outputs, attributes):
    if operator in ("Reshape", "Squeeze", "Unsqueeze", "Flatten"):
        return "reshape", [x, list(outputs[0].shape)], outputs
    if operator == "Expand":
        return "broadcast_to", [x, list(outputs[0].shape)], outputs
    if operator == "Transpose":
        return "permute", [x, attributes.get("perm") or list(range(x.ndim))[::-1]], outputs
    if operator == "Concat":
        return "cat", [inputs, attributes["axis"]], outputs
    if operator == "Tile":
        return "tile", [x, inputs[1].tolist()], outputs
    if operator == "Split":
        axis = attributes.get("axis", 0)
        return "split", [x, [part.shape[axis] for part in outputs], axis], outputs
    if operator == "Pad":
        need(len(inputs) > 1 and attributes.get("mode", "constant") == "constant" and x.ndim * 2 == inputs[1].size)
        pads = inputs[1].tolist()
        flat = [pads[at] for dim in reversed(range(x.ndim)) for at in (dim, dim + x.ndim)]
        return "pad", [x, flat, "constant", float(inputs[2]) if len(inputs) > 2 else 0.0], outputs
    return "triu" if attributes.get("upper", 1) else "tril", [x, int(inputs[1]) if len(inputs) > 1 else 0], outputs


def resize(operator, x, inputs, outputs, attributes):
    mode = {"linear": "bilinear", "cubic": "bicubic"}.get(attributes.get("mode"))
    coordinates = attributes.get("coordinate_transformation_mode", "half_pixel")
    need(mode and x.ndim == 4 and coordinates in ("half_pixel", "align_corners") and not attributes.get("exclude_outside"))
    need(attributes.get("cubic_coeff_a", -0.75) == -0.75 and outputs[0].shape[:2] == x.shape[:2])
    # There the scale decides where corners lie, even if the size that follows from it was rounded.
    need(coordinates == "half_pixel" or len(inputs) > 3 or all(float(scale * size).is_integer() for scale, size in zip(inputs[2], x.shape)))
    by_size = len(inputs) > 3 and inputs[3] is not None and inputs[3].size
    given = [list(outputs[0].shape[2:]), None] if by_size else [None, [float(scale) for scale in inputs[2][2:]]]
    return "interpolate", [x, *given, mode, coordinates == "align_corners"], outputs


def simple(operator, x, inputs, outputs, attributes):
    """Elementwise operators with parameters, and softmax."""
    is_float = x.dtype.kind == "f"
    if operator in ("Softmax", "LogSoftmax"):
        return "softmax" if operator == "Softmax" else "log_softmax", [x, attributes.get("axis", -1)], outputs
    if operator == "Clip":
        inputs = [*inputs, attributes.get("min"), attributes.get("max")] if attributes else inputs
        return "clamp", [x, *(float(limit) if limit is not None and is_float else None if limit is None else int(limit) for limit in inputs[1:])], outputs
    if operator in ("Elu", "Celu", "LeakyRelu"):
        return {"LeakyRelu": "leaky_relu"}.get(operator, operator.lower()), [x, attributes.get("alpha", 0.01 if operator == "LeakyRelu" else 1.0)], outputs
    if operator == "Div":
        return "div", inputs, outputs, {} if is_float else {"rounding_mode": "trunc"}
    if operator == "Mod":
        return "fmod" if attributes.get("fmod") else "remainder", inputs, outputs
    if operator == "CumSum":
        need(not attributes.get("exclusive") and not attributes.get("reverse"))
        return "cumsum", [x, int(inputs[1])], outputs
    if operator == "Pow":
        need(is_float)
        return "pow", inputs, outputs
    if operator == "Gemm":
        left, right = (part.T if attributes.get(flag) else part for part, flag in ((x, "transA"), (inputs[1], "transB")))
        base = inputs[2] if len(inputs) > 2 else numpy.zeros((), x.dtype)
        return "addmm", [base, left, right], outputs, {"beta": attributes.get("beta", 1.0), "alpha": attributes.get("alpha", 1.0)}
    if operator == "Einsum":
        return "einsum", [attributes["equation"], inputs], outputs
    return "where", inputs, outputs


FAMILIES = {reduction: list(REDUCTIONS), convolution: ["Conv", "ConvTranspose"], pooling: ["AveragePool", "MaxPool", "GlobalAveragePool"],
            normalization: ["LayerNormalization", "InstanceNormalization", "BatchNormalization"],
            loss: ["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"],
            selection: ["ArgMax", "ArgMin", "TopK", "Gather", "GatherElements", "Scatter", "ScatterElements"],
            moving: ["Reshape", "Squeeze", "Unsqueeze", "Flatten", "Expand", "Transpose", "Concat", "Tile", "Split", "Pad", "Trilu"], resize: ["Resize"],
            simple: ["Softmax", "LogSoftmax", "Clip", "Elu", "Celu", "LeakyRelu", "Div", "Mod", "CumSum", "Pow", "Gemm", "Einsum", "Where"]}
FAMILY = {operator: family for family, operators in FAMILIES.items() for operator in operators}


def call_of(operator, inputs, outputs, attributes):
    """(name, arguments, results, named arguments) of PyTorch; Different where it has no such operator."""
    need(inputs and outputs and all(array is not None for array in outputs) and inputs[0] is not None)
    if operator in UNARY:
        need(not attributes)  # they are constants in PyTorch
        return UNARY[operator], inputs, outputs, {}
    if operator in BINARY:
        need(len(inputs) == 2)
        return BINARY[operator], inputs, outputs, {}
    need(operator in FAMILY)
    return (*FAMILY[operator](operator, inputs[0], inputs, outputs, attributes), {})[:4]


class Dump:
    """A dump of one step, written call by call."""

    def __init__(self, folder):
        self.folder, self.calls = os.path.join(folder, "step0", "rank"), {}
        os.makedirs(os.path.join(self.folder, "dump_tensor_data"))

    def leaf(self, value, name):
        if isinstance(value, numpy.ndarray):
            need(value.dtype.kind in "fiub" and value.dtype != numpy.uint64)
            numpy.save(os.path.join(self.folder, "dump_tensor_data", name + ".npy"), numpy.ascontiguousarray(value).reshape(value.shape))
            return {"type": "torch.Tensor", "dtype": f"torch.{value.dtype}", "shape": list(value.shape), "data_name": name + ".npy"}
        if isinstance(value, (list, tuple)):
            return [self.leaf(item, f"{name}.{at}") for at, item in enumerate(value)]
        return None if value is None else {"type": type(value).__name__, "value": value}

    def add(self, name, arguments, results, named):
        self.calls[name] = {"input_args": self.leaf(list(arguments), name + ".input"), "input_kwargs": {key: self.leaf(value, f"{name}.{key}") for key, value
                                                                                                        in named.items()},
                            "output": self.leaf(list(results), name + ".output")}

    def close(self):
        with open(os.path.join(self.folder, "dump.json"), "w", encoding="utf-8") as file:
            json.dump({"task": "tensor", "level": "L1", "framework": "pytorch", "data": self.calls}, file)


def cases():
    """(folder, operator, inputs, outputs, attributes) of models of one node."""
    for folder in sorted(glob.glob(DATA + "/*/*/")):
        if not os.path.exists(folder + "model.onnx"):
            continue
        with open(folder + "model.onnx", "rb") as file:
            nodes, names, values = graph(file.read())
        if len(nodes) != 1:
            continue
        operator, inputs, outputs, attributes = nodes[0]
        for data in sorted(glob.glob(folder + "test_data_set_*/")):
            def read(kind, at, data=data):
                path = f"{data}{kind}_{at}.pb"
                if not os.path.exists(path):
                    return None
                with open(path, "rb") as file:
                    return tensor(file.read())
            known = {**values, **{name: read("input", at) for at, name in enumerate(names)}}
            yield folder, operator, [known.get(name) for name in inputs], [read("output", at) for at in range(len(outputs))], attributes


@unittest.skipUnless(os.path.isdir(DATA), "Debian's package libonnx-testdata is not installed")
class Onnx(unittest.TestCase):
    maxDiff = None

    def test_no_result_of_the_operator_tests_is_called_wrong(self):
        with tempfile.TemporaryDirectory(prefix="msprobe_onnx_") as folder:
            dump, of_call, counts = Dump(os.path.join(folder, "dump")), {}, {}
            for case, operator, inputs, outputs, attributes in cases():
                try:
                    name, arguments, results, named = call_of(operator, inputs, outputs, attributes)
                    number = counts.get(name, 0)
                    call = f"Torch.{name}.{number}.forward"
                    dump.add(call, arguments, results, named)
                    counts[name], of_call[call] = number + 1, case
                except Different:
                    continue
            dump.close()
            subprocess.run([MSPROBE, "recheck", os.path.join(folder, "dump"), "-o", os.path.join(folder, "result"), "-q"], check=True)
            [table] = glob.glob(os.path.join(folder, "result", "*.csv"))
            with open(table, encoding="utf-8-sig", newline="") as lines:
                rows = list(csv.DictReader(lines))
        wrong = [(row["Call"], of_call[row["Call"]], row["Ratio"], row["Element"], row["Captured"], row["Exact"]) for row in rows if row["Verdict"] == "beyond"]
        self.assertEqual(wrong, [])
        within = [row["Call"].split(".")[1] for row in rows if row["Verdict"] == "within"]
        print(f"{len(within)} of {len(rows)} calls of {len(set(within))} kinds within their bounds")
        if os.environ.get("MSPROBE_VERBOSE"):
            print([(row["Call"], row["Reason"], of_call[row["Call"]]) for row in rows if row["Verdict"] == "not checkable"])
        self.assertGreater(len(within), 300)


if __name__ == "__main__":
    unittest.main()
