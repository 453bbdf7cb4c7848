#!/usr/bin/env python3
"""`msprobe compare --format html`: what the file is, and what a real browser makes of it.

usage: compare_page_test.py MSPROBE REPOSITORY (file | browser | screenshots FOLDER)

file: the bytes of the page. browser: opened from file:// in a headless Chromium, driven by tests/web/compare_page_test.mjs.
screenshots: the pictures of docs/commands/compare.md. Skipped (exit 77) where Chromium, Node or the packages of tools/dev/build_web.sh are
not, or when this msprobe was built without the page.
"""
import json
import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import page_tests  # noqa: E402
from page_blocks import with_plain_blocks  # noqa: E402
from page_tests import HOSTILE  # noqa: E402

MSPROBE, REPOSITORY = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
MOST_BYTES = 5_000_000
FRAMES = ["File /home/user/train.py, line %d, in forward, \n x = self.layer_%d(x)" % (i, i) for i in range(12)]


class Dumps:
    """Two sides of one training, statistics only: layers of a module with calls inside. From layer `from_layer` on their outputs part."""

    def __init__(self, calls, seed=1, from_layer=None, names=None, noise=0.0):
        self.generator = random.Random(seed)
        self.calls, self.from_layer, self.names, self.noise = calls, from_layer, names, noise
        self.data = ({}, {})
        self.construct, self.stacks = {}, {}

    def tensor(self, apart):
        """The same tensor on both sides, `apart` relatively."""
        def of_float32(value):
            return float("%.8g" % value)
        numbers = [self.generator.uniform(1, 9), -self.generator.uniform(1, 9), self.generator.gauss(0, 0.1), self.generator.uniform(100, 9000)]
        sides = []
        for distance in (0.0, apart):
            values = [of_float32(value * (1 + distance * self.generator.gauss(0, 1))) for value in numbers]
            sides.append({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [64, 128], "Max": values[0], "Min": values[1], "Mean": values[2],
                          "Norm": values[3], "requires_grad": True})
        return sides

    def add(self, name, parent, before, behind, frame):
        arguments = [self.tensor(before) for _ in range(3)]
        output = self.tensor(behind)
        for side in (0, 1):
            self.data[side][name] = {"input_args": [item[side] for item in arguments], "input_kwargs": {"dim": {"type": "int", "value": -1}},
                                     "output": [output[side]]}
        self.construct[name] = parent
        self.stacks.setdefault(frame, []).append(name)

    def make(self):
        layers = max(1, self.calls // 4)
        self.construct["Module.model.GPT.forward.0"] = None
        for layer in range(layers):
            path = self.names[layer % len(self.names)] if self.names else "layers.%d" % layer
            module = "Module.model.%s.Block.forward.0" % path
            self.construct[module] = "Module.model.GPT.forward.0"
            apart = self.from_layer is not None and layer >= self.from_layer
            for k, kind in enumerate(("linear", "layer_norm", "matmul")):
                before = 1e-2 if apart and (layer > self.from_layer or k > 0) else self.noise
                self.add("Functional.%s.%d.forward" % (kind, layer), module, before, 1e-2 if apart else self.noise, (layer * 3 + k) % len(FRAMES))
            self.add(module, "Module.model.GPT.forward.0", 1e-2 if apart and layer > self.from_layer else self.noise, 1e-2 if apart else self.noise, 0)
        return self

    def write(self, folders):
        for folder, data in zip(folders, self.data):
            folder.mkdir(parents=True, exist_ok=True)
            head = {"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None, "data": data}
            (folder / "dump.json").write_text(json.dumps(head))
            (folder / "construct.json").write_text(json.dumps(self.construct))
            stacks = {str(frame): [names, [FRAMES[frame], "</script><script>window.hurt=1</script>"]] for frame, names in self.stacks.items()}
            (folder / "stack.json").write_text(json.dumps(stacks))


def sides(folder, *rest):
    return [folder.joinpath(side, *rest) for side in ("npu", "bench")]


def compare(folder, name, *flags):
    """The page of what was written below `folder`, as NAME.html beside it; what the screen says."""
    said = page_tests.run(MSPROBE, "compare", *sides(folder), "-o", folder / "out", "--format", "html", "-c", *flags)
    page, = (folder / "out").glob("*.html")
    page.rename(folder.parent / (name + ".html"))
    return said


def check_file(folder):
    Dumps(24, from_layer=3, names=HOSTILE).make().write(sides(folder / "hostile"))
    said = compare(folder / "hostile", "a")
    assert "compare_result_" in said and ".html" in said, said
    assert not list((folder / "hostile/out").glob("*.xlsx")), "a table that nobody asked for"
    page = (folder / "a.html").read_bytes()
    text = page.decode("ascii")
    compare(folder / "hostile", "b")
    assert page == (folder / "b.html").read_bytes(), "the same run gave other bytes"
    compare(folder / "hostile", "c", "--threads", "1")
    other = (folder / "c.html").read_bytes()
    assert b" --threads 1" in with_plain_blocks(other), "the command line is not in the page"
    assert page_tests.without_command_line(page) == page_tests.without_command_line(other), "another number of threads gave other bytes"
    compare(folder / "hostile", "d", "--output-name", "token=geheim")
    plain = with_plain_blocks((folder / "d.html").read_bytes())
    assert b"token=***" in plain and b"geheim" not in plain, "a secret of the command line is in the page"
    for name in HOSTILE:
        assert name not in text
    assert "window.hurt" not in text
    page_tests.check_policy(text, ("uplot", "preact", "htm"))

    both = page_tests.run(MSPROBE, "compare", *sides(folder / "hostile"), "-o", folder / "both", "--format", "xlsx,html", "--output-name", "mine")
    assert len(list((folder / "both").glob("mine_*.html"))) == 1 and len(list((folder / "both").glob("mine_*.xlsx"))) == 1, both

    # Larger than a page may be: cut with a note on the screen, never in silence.
    Dumps(24_500, from_layer=5000, noise=1e-7).make().write(sides(folder / "huge"))
    said = compare(folder / "huge", "huge")
    size = (folder / "huge.html").stat().st_size
    assert size <= MOST_BYTES, size
    assert "the page holds 100,000 of the 122,500 rows" in said, said
    for rank in range(6):
        Dumps(8000, seed=rank, from_layer=1000 if rank == 2 else None, noise=1e-7).make().write(sides(folder / "ranks", "step0", "rank%d" % rank))
    said = compare(folder / "ranks", "ranks")
    assert "pairs without rows" in said or "1 pair without rows" in said, said
    assert (folder / "ranks.html").stat().st_size <= MOST_BYTES
    print("file: %d kB, same bytes again, nothing of the dumps is markup; 122,500 rows: %d kB" % (len(page) / 1000, size / 1000))


def check_browser(folder, pictures=None):
    page_tests.browser_tools(REPOSITORY)
    example = REPOSITORY / "docs/example"
    page_tests.run(MSPROBE, "compare", example / "npu", example / "bench", "-o", folder / "out", "--format", "html,xlsx", "-c")
    page, = (folder / "out").glob("*.html")
    page.rename(folder / "example.html")
    Dumps(24, from_layer=3, names=HOSTILE).make().write(sides(folder / "hostile"))
    compare(folder / "hostile", "hostile")
    for step in range(3):
        for rank in range(4):
            apart = 4 if step > 1 or (step == 1 and rank == 2) else None
            Dumps(40, seed=step * 4 + rank, from_layer=apart).make().write(sides(folder / "ranks", "step%d" % step, "rank%d" % rank))
    compare(folder / "ranks", "ranks")
    # Calls were repeated at the reference side: their own noise is known.
    repeated = Dumps(24, from_layer=3).make()
    for entry in repeated.data[1].values():
        entry["noise_floor"] = {"repeats": 5, "output": {"0": {"digits": 4.2, "noise": 1e-4}}}
    repeated.write(sides(folder / "repeated"))
    compare(folder / "repeated", "repeated")
    Dumps(20, seed=3).make().write(sides(folder / "same"))
    compare(folder / "same", "same")
    large = Dumps(20_000, from_layer=3000, noise=1e-7).make()
    large.write(sides(folder / "large"))
    compare(folder / "large", "large")
    Dumps(24_500, from_layer=5000, noise=1e-7).make().write(sides(folder / "cut"))
    compare(folder / "cut", "cut")
    truth = large.data[0]["Functional.matmul.4000.forward"]["output"][0], large.data[1]["Functional.matmul.4000.forward"]["output"][0]
    page_tests.drive(REPOSITORY, "compare_page_test.mjs", folder, pictures, large={"bytes": (folder / "large.html").stat().st_size, "rows": 100_000, "truth": truth})


if __name__ == "__main__":
    page_tests.main("compare_page", check_file, check_browser)
