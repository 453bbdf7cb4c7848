#!/usr/bin/env python3
"""`--format html` of perf_compare and ckpt_compare: what the files are, and what a real browser makes of them.

usage: answer_page_test.py MSPROBE REPOSITORY (file | browser | screenshots FOLDER)

file: the bytes of the pages. browser: opened from file:// in a headless Chromium, driven by tests/web/answer_page_test.mjs.
screenshots: the pictures of docs. Skipped (exit 77) where Chromium, Node or the packages of tools/dev/build_web.sh are not, or when
this msprobe was built without the page.
"""
import dataclasses
import sys
from pathlib import Path

import numpy

sys.path.insert(0, str(Path(__file__).parent))
import kineto_trace  # noqa: E402
import page_tests  # noqa: E402

MSPROBE, REPOSITORY = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
KINDS = ("attention.qkv.weight", "attention.dense.weight", "mlp.fc1.weight", "mlp.fc1.bias", "mlp.fc2.weight", "norm.weight")
HOSTILE = 'layers.1."><img src=x onerror=window.hurt=1><!--'


def checkpoints(folder, layers, size=6, hostile=True):
    """Two of them: from layer 3 on mlp.fc1 is apart, the more the deeper; one name is `hostile`."""
    folder.mkdir(parents=True)
    dice = numpy.random.default_rng(1)
    sides = ({}, {})
    for layer in range(layers):
        for kind in KINDS:
            name = "layers.%d.%s" % (layer, kind)
            values = dice.standard_normal(size).astype(numpy.float32)
            sides[0][name] = values
            sides[1][name] = values * numpy.float32(1 + 1e-3 * layer) if kind.startswith("mlp.fc1.weight") and layer >= 3 else values
    for side in sides if hostile else ():
        side[HOSTILE] = numpy.ones(3, numpy.float32)
    for name, side in zip(("a", "b"), sides):
        numpy.savez(folder / (name + ".npz"), **side)
    return folder / "a.npz", folder / "b.npz"


def ckpt_page(folder, name, layers, **more):
    a, b = checkpoints(folder / name, layers, **more)
    said = page_tests.run(MSPROBE, "ckpt_compare", a, b, "-o", folder / name / "result.json", "--format", "html")
    (folder / name / "result_details.html").rename(folder / (name + ".html"))
    return said


def perf_page(folder, name):
    plan = kineto_trace.Plan(steps=2, layers=4, seed=7)
    slower = dataclasses.replace(plan, factors={"aten::mm": 1.8})
    (folder / name).mkdir()
    for side, one in (("base", plan), ("comparison", slower)):
        kineto_trace.write(one, folder / name / (side + ".json"))
    said = page_tests.run(MSPROBE, "perf_compare", "-d", folder / name / "comparison.json", "-bp", folder / name / "base.json", "-o", folder / name / "out",
                          "--format", "html")
    page, = (folder / name / "out").glob("*.html")
    assert str(page.name) in said, said
    page.rename(folder / (name + ".html"))
    return said


def check_file(folder):
    said = ckpt_page(folder, "ckpt", 6)
    assert "result_details.html" in said, said
    perf_page(folder, "perf")
    for name in ("ckpt", "perf"):
        text = (folder / (name + ".html")).read_text("ascii")
        page_tests.check_policy(text)
        assert "window.hurt" not in text and "layers.1" not in text
    # A page that is there is not replaced.
    a, b = folder / "ckpt/a.npz", folder / "ckpt/b.npz"
    (folder / "ckpt/result.json").unlink()
    (folder / "ckpt/result_details.html").write_text("mine")
    assert "exists" in page_tests.run(MSPROBE, "ckpt_compare", a, b, "-o", folder / "ckpt/result.json", "--format", "html", fails=True)
    assert (folder / "ckpt/result_details.html").read_text() == "mine"
    print("file: policies hold, nothing of names is markup")


def check_browser(folder, pictures=None):
    page_tests.browser_tools(REPOSITORY)
    ckpt_page(folder, "ckpt", 12, hostile=not pictures)
    ckpt_page(folder, "large", 17_500, size=2)
    perf_page(folder, "perf")
    page_tests.drive(REPOSITORY, "answer_page_test.mjs", folder, pictures, hostile_name=HOSTILE, large_bytes=(folder / "large.html").stat().st_size)


if __name__ == "__main__":
    page_tests.main("answer_page", check_file, check_browser)
