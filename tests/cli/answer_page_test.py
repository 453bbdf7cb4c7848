#!/usr/bin/env python3
"""`--format html` of every command whose page is not of its own kind: what the files are, and what a real browser makes of them.

usage: answer_page_test.py MSPROBE REPOSITORY (file | browser | screenshots FOLDER)

file: the bytes of the pages. browser: opened from file:// in a headless Chromium, driven by tests/web/answer_page_test.mjs.
screenshots: the pictures of docs. Skipped (exit 77) where Chromium, Node or the packages of tools/dev/build_web.sh are not, or when
this msprobe was built without the page.
"""
import dataclasses
import json
import shutil
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
    for side, item in (("base", plan), ("comparison", slower)):
        kineto_trace.write(item, folder / name / (side + ".json"))
    said = page_tests.run(MSPROBE, "perf_compare", "-d", folder / name / "comparison.json", "-bp", folder / name / "base.json", "-o", folder / name / "out",
                          "--format", "html")
    page, = (folder / name / "out").glob("*.html")
    assert str(page.name) in said, said
    page.rename(folder / (name + ".html"))
    return said


def hostile_dump(folder):
    """One rank whose only operator makes an infinity; its name and its line of code are markup."""
    rank = folder / "rank0"
    rank.mkdir(parents=True)
    name = "Torch.<img src=x onerror=window.hurt=1>.0.forward"
    def tensor(most):
        return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 8], "Max": most, "Min": -1.0, "Mean": 0.5, "Norm": 2.0, "requires_grad": False}
    data = {name: {"input_args": [tensor(2.0)], "input_kwargs": {}, "output": [tensor(float("inf"))]}}
    head = {"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None, "data": data}
    (rank / "dump.json").write_text(json.dumps(head))
    (rank / "stack.json").write_text(json.dumps({"0": [[name], ["File /a.py, line 3, in f, \n x = '</script><script>window.hurt=1</script>'"]]}))
    (rank / "construct.json").write_text(json.dumps({name: None}))
    return folder


def document_pages(folder):
    """Pages that are made of a command's answer alone, by the command; each stands beside the tables and is named as they are."""
    example, data = REPOSITORY / "docs/example/config_check", REPOSITORY / "tests/data"
    run = page_tests.run
    said = run(MSPROBE, "config_check", "-c", example / "gpu.zip", example / "npu.zip", "-o", folder / "packs", "--format", "html,json")
    assert "result.html" in said and (folder / "packs/result.json").is_file(), said
    said = run(MSPROBE, "nan_analyze", "-i", data / "nan_analyze/p2p_chain/step0", "--levels", "-o", folder / "nan", "--format", "html")
    found, = (folder / "nan").glob("anomaly_analyze_*.html")
    assert found.with_suffix(".json").is_file() and found.name in said, said
    run(MSPROBE, "nan_analyze", "-i", hostile_dump(folder / "step0"), "-o", folder / "hostile_nan", "--format", "html")
    hostile, = (folder / "hostile_nan").glob("anomaly_analyze_*.html")
    said = run(MSPROBE, "rl_compare", "-a", data / "rl_compare/rl_collect/run_a", "-b", data / "rl_compare/rl_collect/run_b", "-f", "html,csv", "-o", folder / "rl")
    assert "rl_compare.html" in said and (folder / "rl/reward.csv").is_file(), said
    run(MSPROBE, "grad_compare", data / "grad_probe/compare/a", data / "grad_probe/compare/b", "--format", "csv,html", "-o", folder / "grad")
    pages = {"grad_compare": folder / "grad/grad_compare.html", "config_check": folder / "packs/result.html", "nan_analyze": found, "hostile": hostile, "rl_compare": folder / "rl/rl_compare.html"}
    for name, page in pages.items():
        shutil.copy(page, folder / (name + ".html"))
    return pages


def check_file(folder):
    pages = document_pages(folder)
    for page in pages.values():
        text = page.read_text("ascii")
        page_tests.check_policy(text)
        assert "window.hurt" not in text and "onerror" not in text
    # Without a word no page is replaced; with it, it is.
    again = ["rl_compare", "-a", REPOSITORY / "tests/data/rl_compare/rl_collect/run_a", "-b", REPOSITORY / "tests/data/rl_compare/rl_collect/run_a", "-f", "html",
             "-o", folder / "rl"]
    before = pages["rl_compare"].read_bytes()
    assert "exists" in page_tests.run(MSPROBE, *again, fails=True)
    assert pages["rl_compare"].read_bytes() == before
    page_tests.run(MSPROBE, *again, "--force")
    assert pages["rl_compare"].read_bytes() != before
    example = REPOSITORY / "docs/example/config_check"
    page_tests.run(MSPROBE, "config_check", "-c", example / "gpu.zip", example / "npu.zip", "-o", folder / "packs", "--force")
    assert not pages["config_check"].exists(), "a page of the earlier run would contradict this one"

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
    document_pages(folder)
    page_tests.drive(REPOSITORY, "answer_page_test.mjs", folder, pictures, hostile_name=HOSTILE, large_bytes=(folder / "large.html").stat().st_size)


if __name__ == "__main__":
    page_tests.main("answer_page", check_file, check_browser)
