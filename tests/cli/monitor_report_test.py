#!/usr/bin/env python3
"""`msprobe monitor report`: what the file is, and what a real browser makes of it.

usage: monitor_report_test.py MSPROBE REPOSITORY (file | browser | screenshots FOLDER)

file: the bytes of the page. browser: opened from file:// in a headless Chromium, driven by tests/web/monitor_report_test.mjs; skipped
(exit 77) where Chromium, Node or the packages of tools/dev/build_web.sh are not. screenshots: the pictures of docs/monitor_report.md.
Both are skipped when this msprobe was built without the page.
"""
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import monitor_data  # noqa: E402

MSPROBE, REPOSITORY = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
SKIP = 77
HOSTILE = ["layers.0.</script><script>window.hurt=1</script>", 'layers.1."><img src=x onerror="window.hurt=1">', "layers.2.{{data}}<!--",
           "layers.3.${window.hurt=1}", "layers.4.\u4e2d\u6587\u202e\u00e9", "layers.5.a,b"]


def skip(reason):
    print("skipped: " + reason)
    sys.exit(SKIP)


def report(*arguments, fails=False):
    run = subprocess.run([MSPROBE, "monitor", "report", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    text = run.stdout.decode("utf-8", "replace")
    if "built without the page" in text:
        skip("this msprobe was built without the page; tools/dev/build_web.sh makes it")
    assert (run.returncode != 0) == fails, text
    return text


def check_file(folder):
    monitor_data.Run(modules=6, steps=30, ranks=2, names=HOSTILE, drift=(1, 20), poison=(2, 1, 25)).write(folder / "run")
    said = report(folder / "run", "-o", folder / "a.html")
    assert "720 rows of 12 series and 2 ranks, steps 0 to 29: 2 alerts" in said, said
    assert "20 numbers that are not finite" in said, said  # 5 steps of norm, min, max and mean
    page = (folder / "a.html").read_bytes()
    report(folder / "run", "-o", folder / "b.html")
    assert page == (folder / "b.html").read_bytes(), "the same run gave other bytes"
    shutil.copytree(folder / "run", folder / "elsewhere" / "run")
    report(folder / "elsewhere" / "run", "-o", folder / "c.html")
    assert page == (folder / "c.html").read_bytes(), "the place of a run shows in its page"

    text = page.decode("ascii")  # bundled as ASCII: no encoding to get wrong
    for name in HOSTILE:
        assert name not in text
    assert "window.hurt" not in text
    assert not re.search(r'(src|href)\s*=\s*["\']?(https?:)?//', text), "the page refers to a host"
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text).group(1)
    assert "default-src 'none'" in policy and "unsafe-eval" not in policy and "http" not in policy
    script = re.search(r"<script>(.*?)</script>", text, re.S).group(1)
    assert hashlib.sha256(script.encode()).digest() in [__import__("base64").b64decode(h) for h in re.findall(r"sha256-([^']+)'", policy)]
    for name in ("uplot", "preact", "htm"):
        assert re.search(r"^%s [\d.]+ \(" % name, text, re.M) or ">%s " % name in text, "no licence of " + name
    assert len(text) - text.count("\n") < 250_000

    report(folder / "run", "-o", folder / "less.html", "--tables", "actv", "--statistics", "norm")
    assert (folder / "less.html").stat().st_size < (folder / "a.html").stat().st_size
    said = report(folder / "run", "-o", folder / "x.html", "--statistics", "norms", fails=True)
    assert 'no statistic "norms"' in said, said
    assert '"actvs"' in report(folder / "run", "-o", folder / "x.html", "--tables", "actvs", fails=True)
    assert "none" in report(folder / "none", "-o", folder / "x.html", fails=True)
    assert not (folder / "x.html").exists()
    assert "/proc/none" in report(folder / "run", "-o", "/proc/none/x.html", fails=True)
    print("file: %d kB, same bytes again, nothing of the run is markup" % (len(page) / 1000))


def browser_tools():
    chromium = shutil.which("chromium")
    modules = Path(os.environ.get("MSPROBE_WEB_MODULES", REPOSITORY / "build-web/node_modules"))
    if chromium is None:
        skip("chromium is not installed (tools/install_dependencies.sh browser)")
    if shutil.which("node") is None:
        skip("node is not installed (tools/install_dependencies.sh page)")
    if not (modules / "playwright-core").is_dir():
        skip("playwright-core is not in %s (tools/dev/build_web.sh)" % modules)
    return chromium, modules


def check_browser(folder, pictures=None):
    report(folder, "-o", folder / "never.html", fails=True)  # tells whether there is a page at all
    chromium, modules = browser_tools()
    truth = monitor_data.Run().write(folder / "run_a")
    names = monitor_data.Run().names
    names[names.index("layers.5.norm")] = "layers.5.adapter"  # each run has a module that the other one lacks
    other = monitor_data.Run(seed=2, drift=(12, 60), poison=None, names=names)
    other_truth = other.write(folder / "run_b")
    hooks = monitor_data.Run(modules=4, steps=20, ranks=2, tables=("actv",), drift=None, poison=None)
    hooks.write(folder / "hooks")
    hooks_truth = hooks.write_hooks(folder / "hooks")
    monitor_data.Run(modules=6, steps=30, ranks=2, names=HOSTILE, drift=(1, 20), poison=(2, 1, 25)).write(folder / "hostile")
    monitor_data.Run(modules=500, ranks=1, tables=("actv",)).write(folder / "large")
    report(folder / "run_a", "-o", folder / "one.html")
    report(folder / "run_a", folder / "run_b", "-o", folder / "two.html")
    report(folder / "hostile", "-o", folder / "hostile.html")
    report(folder / "hooks", "-o", folder / "hooks.html")
    report(folder / "large", "-o", folder / "large.html")
    whole = (folder / "one.html").read_text()
    (folder / "cut.html").write_text(re.sub('<script type="text/plain" id="a0_0">.*?</script>', "", whole))
    facts = {
        "folder": str(folder), "chromium": chromium, "modules": str(modules), "pictures": str(pictures) if pictures else None, "hostile": HOSTILE,
        "only": {"name": "layers.5.adapter.output", "rank": 1, "step": 99, "norm": other_truth["actv", "layers.5.adapter.output", 1, 99]},
        "hook": {"name": "layers.2.core", "rank": 1, "step": 7, "entropy": hooks_truth["attention_hook", "layers.2.core", 1, 7]},
        "sample": {"name": "layers.3.mlp.fc2.output", "rank": 2, "step": 77, "norm": truth["actv", "layers.3.mlp.fc2.output", 2, 77]},
    }
    (folder / "facts.json").write_text(json.dumps(facts))
    run = subprocess.run(["node", str(REPOSITORY / "tests/web/monitor_report_test.mjs"), str(folder / "facts.json")], check=False)
    sys.exit(run.returncode)


def main():
    with tempfile.TemporaryDirectory(prefix="msprobe_report_") as name:
        if sys.argv[3] == "file":
            check_file(Path(name))
        else:
            check_browser(Path(name), Path(sys.argv[4]).resolve() if sys.argv[3] == "screenshots" else None)


if __name__ == "__main__":
    main()
