#!/usr/bin/env python3
"""`msprobe graph --format html`: what the file is, and what a real browser makes of it.

usage: graph_page_test.py MSPROBE REPOSITORY (file | browser | screenshots FOLDER)

file: the bytes of the page. browser: opened from file:// in a headless Chromium, driven by tests/web/graph_page_test.mjs.
screenshots: the pictures of docs/commands/graph.md. Skipped (exit 77) where Chromium, Node or the packages of tools/dev/build_web.sh are
not, or when this msprobe was built without the page.
"""
import copy
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import page_tests  # noqa: E402
from page_blocks import with_plain_blocks  # noqa: E402
from page_tests import HOSTILE  # noqa: E402

MSPROBE, REPOSITORY = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
MOST_BYTES = 5_000_000


def tensor(value):
    return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4, 8], "Max": value, "Min": -value, "Mean": value / 8, "Norm": value * 3,
            "requires_grad": False}


class Model:
    """A dump of statistics: modules with calls inside. `apart`: from this layer on the reference differs."""

    def __init__(self, layers, names=None, per_layer=3):
        self.data, self.construct, self.stacks = {}, {"Module.net.Net.forward.0": None}, {}
        self.layers = layers
        self.add("Module.net.Net.forward.0", None, 1.0, 2.0, "model")
        for layer in range(layers):
            path = names[layer % len(names)] if names else "layers.%d" % layer
            module = "Module.net.%s.Block.forward.0" % path
            self.add(module, "Module.net.Net.forward.0", 1.0 + layer, 2.0 + layer, "block%d" % (layer % 7))
            for k in range(per_layer):
                self.add("Functional.op%d.%d.forward" % (k, layer), module, 1.0 + layer + k / 8, 1.125 + layer + k / 8, "op%d" % k)

    def add(self, name, parent, before, behind, stack):
        self.data[name] = {"input_args": [tensor(before)], "input_kwargs": {}, "output": [tensor(behind)]}
        self.construct[name] = parent
        self.stacks.setdefault(stack, []).append(name)

    def apart(self, layer):
        """The other side, whose outputs differ from this layer on."""
        other = copy.deepcopy(self)
        for name, entry in other.data.items():
            number = int(name.split("layers.")[1].split(".")[0]) if "layers." in name else int(name.split(".")[2]) if name.startswith("Functional") else -1
            if number >= layer:
                entry["output"] = [tensor(entry["output"][0]["Max"] * 1.03)]
                if number > layer:
                    entry["input_args"] = [tensor(entry["input_args"][0]["Max"] * 1.03)]
        return other

    def without(self, name):
        other = copy.deepcopy(self)
        for part in (other.data, other.construct):
            part.pop(name)
        return other

    def write(self, folder):
        folder.mkdir(parents=True, exist_ok=True)
        head = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None, "data": self.data}
        (folder / "dump.json").write_text(json.dumps(head))
        (folder / "construct.json").write_text(json.dumps(self.construct))
        stacks = {str(i): [names, ["File /home/user/%s.py, line %d, in forward, \n y = op(x)" % (stack, i), "</script><script>window.hurt=1</script>"]]
                  for i, (stack, names) in enumerate(self.stacks.items())}
        (folder / "stack.json").write_text(json.dumps(stacks))


def graph(folder, name, *inputs, flags=()):
    said = page_tests.run(MSPROBE, "graph", *inputs, "-o", folder / ("out_" + name), "--format", "html", *flags)
    page, = (folder / ("out_" + name)).glob("*.html")
    page.rename(folder / (name + ".html"))
    return said


def pair(folder, name, model, other):
    model.write(folder / name / "npu")
    other.write(folder / name / "bench")
    return folder / name / "npu", folder / name / "bench"


def check_file(folder):
    model = Model(6, HOSTILE)
    sides = pair(folder, "hostile", model, model)
    said = graph(folder, "a", *sides)
    assert ".html" in said and ".vis" not in said, said
    page = (folder / "a.html").read_bytes()
    text = page.decode("ascii")
    graph(folder, "b", *sides)
    assert page_tests.without_command_line(page) == page_tests.without_command_line((folder / "b.html").read_bytes()), "the same run gave other bytes"
    graph(folder, "c", *sides, flags=("--threads", "1"))
    other = (folder / "c.html").read_bytes()
    assert b" --threads 1" in with_plain_blocks(other), "the command line is not in the page"
    assert page_tests.without_command_line(page) == page_tests.without_command_line(other), "another number of threads gave other bytes"
    for name in HOSTILE:
        assert name not in text
    assert "window.hurt" not in text
    page_tests.check_policy(text)
    large = Model(6000)
    graph(folder, "large", *pair(folder, "large", large, large.apart(2000)))
    size = (folder / "large.html").stat().st_size
    assert size <= MOST_BYTES, size
    print("file: %d kB, same bytes again, nothing of the dumps is markup; 24,000 nodes: %d kB" % (len(page) / 1000, size / 1000))


def check_browser(folder, pictures=None):
    page_tests.browser_tools(REPOSITORY)
    example = REPOSITORY / "docs/example"
    graph(folder, "example", example / "npu/step0", example / "bench/step0")
    # compare's page first: that of graph finds it, and tells it the way back
    page_tests.run(MSPROBE, "compare", example / "npu/step0", example / "bench/step0", "-o", folder / "beside", "--format", "html")
    page_tests.run(MSPROBE, "graph", example / "npu/step0", example / "bench/step0", "-o", folder / "beside", "--format", "html")
    beside, = (page for page in (folder / "beside").glob("compare_*.html") if "compare_result" not in page.name)
    graph(folder, "one", example / "npu/step0")
    cnn = REPOSITORY / "tests/data/dump/cnn_tensor_mix/dump/step0/rank"
    graph(folder, "cnn", cnn, cnn)
    hostile = Model(6, HOSTILE)
    graph(folder, "hostile", *pair(folder, "hostile", hostile, hostile))
    model = Model(8)
    graph(folder, "unmatched", *pair(folder, "unmatched", model, model.without("Functional.op1.3.forward")))
    graph(folder, "unmatched_bench", *pair(folder, "unmatched_bench", model.without("Functional.op2.5.forward"), model))
    for rank in range(8):
        some = Model(10)
        some.write(folder / "ranks/npu/step0" / ("rank%d" % rank))
        (some.apart(4) if rank == 5 else some).write(folder / "ranks/bench/step0" / ("rank%d" % rank))
    graph(folder, "ranks", folder / "ranks/npu", folder / "ranks/bench")
    for step in range(4):
        Model(2).write(folder / "steps/npu" / ("step%d" % step) / "rank")
    graph(folder, "steps", folder / "steps/npu")
    wide = Model(1, per_layer=20_000)
    graph(folder, "wide", *pair(folder, "wide", wide, wide))
    large = Model(6000)
    graph(folder, "large", *pair(folder, "large", large, large.apart(2000)))
    page_tests.drive(REPOSITORY, "graph_page_test.mjs", folder, pictures, large={"nodes": 24_002}, beside="beside/" + beside.name)


if __name__ == "__main__":
    page_tests.main("graph_page", check_file, check_browser)
