#!/usr/bin/env python3
"""The pages that docs/first-ten-minutes.md shows: the example captured with PyTorch, compared and drawn as the guide does.

usage: first_minutes_test.py MSPROBE REPOSITORY (browser | screenshots FOLDER)

browser: opened from file:// in a headless Chromium, driven by tests/web/first_minutes_test.mjs. screenshots: the pictures of the guide.
Skipped (exit 77) where PyTorch, Chromium, Node or the packages of tools/dev/build_web.sh are not.
"""
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import page_tests  # noqa: E402

MSPROBE, REPOSITORY = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()


def check_browser(folder, pictures=None):
    page_tests.browser_tools(REPOSITORY)
    if subprocess.run([sys.executable, "-c", "import torch"], stderr=subprocess.DEVNULL, check=False).returncode:
        page_tests.skip("this Python has no PyTorch")
    os.chdir(folder)
    shutil.copytree(REPOSITORY / "docs/example", "docs/example", ignore=shutil.ignore_patterns("npu", "bench"))  # names of files are shown
    os.environ["PYTHONPATH"] = str(MSPROBE.parent.parent / "python")
    Path("capture.json").write_text(json.dumps({"step": [0], "task": "tensor", "level": "mix"}))
    for side, script in (("good", "train.py"), ("bad", "faulty_device.py")):
        page_tests.run(MSPROBE, "dump", "-c", "capture.json", "-o", side, "--", sys.executable, "docs/example/" + script)
    page_tests.run(MSPROBE, "compare", "bad", "good", "-o", "result", "--format", "html")
    page_tests.run(MSPROBE, "graph", "bad", "good", "-o", "result", "--format", "html")
    compare, = Path("result").glob("compare_result_*.html")
    graph, = (page for page in Path("result").glob("compare_*.html") if page != compare)
    page_tests.drive(REPOSITORY, "first_minutes_test.mjs", folder, pictures, compare=str(compare), graph=str(graph))


if __name__ == "__main__":
    page_tests.main("first_minutes", None, check_browser)
