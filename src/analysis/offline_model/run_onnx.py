"""Runs an ONNX model with every tensor of its graph as an output, and stores them: started by offline_model.cpp with one argument, JSON with

    model, output, stamp, input_data, input_shape, shapes (of --dym_shape_range), fusion

The last line that it prints is JSON: {"folders": [...], "tensors": n} or {"error": "..."}. The folder that it is started in is not searched
for modules."""
import sys
sys.path[:] = [path for path in sys.path if path]
import csv, json, os, time
options = json.loads(sys.argv[1])


def fail(text):
    print(json.dumps({"error": text}))
    sys.exit(0)


try:
    import numpy, onnx, onnxruntime
    from onnx import numpy_helper
except ImportError as error:
    fail("%s has no module %s: it takes onnx, onnxruntime and numpy" % (sys.executable, error.name))

NUMPY = {"tensor(float)": "float32", "tensor(double)": "float64", "tensor(float16)": "float16", "tensor(int8)": "int8",
         "tensor(int16)": "int16", "tensor(int32)": "int32", "tensor(int64)": "int64", "tensor(uint8)": "uint8", "tensor(uint16)": "uint16",
         "tensor(uint32)": "uint32", "tensor(uint64)": "uint64", "tensor(bool)": "bool"}


def plain(name):
    return name.replace(".", "_").replace("/", "_")


class Store:
    """Files of one folder. Names that are too long become numbers, and names that another tensor has taken too, both listed in mapping.csv."""

    def __init__(self, folder):
        self.folder, self.names, self.mapping = folder, set(), []
        os.makedirs(folder)

    def save(self, node, index, array):
        name = "%s.%d.%d.npy" % (node, index, time.time_ns() // 1000)
        if len(name) > 255 or (node, index) in self.names:
            short = "%d.%d.%d.npy" % (len(self.mapping), index, time.time_ns() // 1000)
            self.mapping.append((short, name))
            name = short
        self.names.add((node, index))
        numpy.save(os.path.join(self.folder, name), array)

    def close(self):
        if self.mapping:
            with open(os.path.join(self.folder, "mapping.csv"), "w", newline="") as file:
                csv.writer(file).writerows([("new", "old")] + self.mapping)


def shape_of(info, shapes):
    declared = info.shape
    given = shapes.get(info.name)
    fixed = [d if isinstance(d, int) else None for d in declared]
    if given is None:
        if None in fixed:
            fail("the input %s has the shape %s: --input_shape \"%s:...\" says which one to run" % (info.name, declared, info.name))
        return fixed
    if len(given) != len(fixed) or any(f is not None and f != g for f, g in zip(fixed, given)):
        fail("--input_shape gives %s the shape %s, the model says %s" % (info.name, given, declared))
    return given


def inputs_of(session, shapes, folder):
    feeds = {}
    for number, info in enumerate(session.get_inputs()):
        dtype = NUMPY.get(info.type)
        if dtype is None:
            fail("the input %s is a %s" % (info.name, info.type))
        shape = shape_of(info, shapes)
        if number < len(options["input_data"]):
            path = options["input_data"][number]
            if path.endswith(".npy"):
                array = numpy.load(path, allow_pickle=False)
            else:
                raw = open(path, "rb").read()
                count = int(numpy.prod(shape))
                half = dtype == "float32" and len(raw) == 2 * count
                array = numpy.frombuffer(raw, "float16" if half else dtype)
                if array.size != count:
                    fail("%s has %d bytes, which are not the %s values of %s" % (path, len(raw), shape, info.name))
            if array.size != int(numpy.prod(shape)):
                fail("%s has the shape %s, the input %s has %s" % (path, list(array.shape), info.name, shape))
            array = numpy.ascontiguousarray(array.reshape(shape).astype(dtype))
        else:
            # The same numbers every time, and kept.
            generator = numpy.random.default_rng(number)
            array = generator.random(shape).astype(dtype) if dtype.startswith("float") else generator.integers(0, 2, shape).astype(dtype)
            os.makedirs(folder, exist_ok=True)
            array.tofile(os.path.join(folder, "input_%d.bin" % number))
        feeds[info.name] = array
    if len(options["input_data"]) > len(feeds):
        fail("--input_data names %d files, the model has %d inputs" % (len(options["input_data"]), len(feeds)))
    return feeds


def run(shapes, folder):
    os.makedirs(os.path.join(folder, "model"))
    model = onnx.load(options["model"])
    for position, node in enumerate(model.graph.node):
        if not node.name:
            node.name = "%s_%d" % (node.op_type, position)
    known = {output.name for output in model.graph.output}
    names = list(dict.fromkeys(name for node in model.graph.node for name in node.output if name))
    for name in names:
        if name not in known:
            model.graph.output.append(onnx.ValueInfoProto(name=name))
    path = os.path.join(folder, "model", "new_" + os.path.basename(options["model"]))
    onnx.save(model, path)
    settings = onnxruntime.SessionOptions()
    settings.log_severity_level = 3
    if not options["fusion"]:
        settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    feeds = inputs_of(session, shapes, os.path.join(folder, "input"))
    values = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    values.update(feeds)
    values.update(zip(names, session.run(names, feeds)))
    store = Store(os.path.join(folder, "dump_data", "onnx"))
    count = 0
    for node in model.graph.node:
        for what, tensors in (("%s", node.output), ("input_%s", node.input)):
            for index, name in enumerate(tensors):
                if isinstance(values.get(name), numpy.ndarray):
                    store.save(what % plain(node.name), index, values[name])
                    count += 1
    store.close()
    return count


try:
    folders, total = [], 0
    for shapes in options["shapes"] or [options["input_shape"]]:
        folder = os.path.join(options["output"], options["stamp"])
        if options["shapes"]:
            text = ";".join("%s:%s" % (name, ",".join(map(str, shape))) for name, shape in shapes.items())
            folder = os.path.join(folder, plain(text.replace(":", "-").replace(";", "-").replace(",", "_")))
        total += run(shapes, folder)
        folders.append(folder)
    print(json.dumps({"folders": folders, "tensors": total}))
except Exception as error:
    fail("%s: %s" % (type(error).__name__, str(error)[:500]))
