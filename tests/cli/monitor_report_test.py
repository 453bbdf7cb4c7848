#!/usr/bin/env python3
"""`msprobe monitor report`: what the file is, and what a real browser makes of it.

usage: monitor_report_test.py MSPROBE REPOSITORY (file | browser | screenshots FOLDER)

file: the bytes of the page. browser: opened from file:// in a headless Chromium, driven by tests/web/monitor_report_test.mjs; skipped
(exit 77) where Chromium, Node or the packages of tools/dev/build_web.sh are not. screenshots: the pictures of docs/commands/monitor_report.md.
Both are skipped when this msprobe was built without the page.
"""
import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import monitor_data  # noqa: E402
import page_tests  # noqa: E402
from page_tests import HOSTILE  # noqa: E402

MSPROBE, REPOSITORY = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
def report(*arguments, fails=False):
    return page_tests.run(MSPROBE, "monitor", "report", *arguments, fails=fails)


def check_file(folder):
    monitor_data.Run(modules=6, steps=30, ranks=2, names=HOSTILE, drift=(1, 20), poison=(2, 1, 25)).write(folder / "run")
    said = report(folder / "run", "-o", folder / "a.html")
    assert said.startswith("FOUND: 2 alerts") and "720 rows of 12 series and 2 ranks, steps 0 to 29" in said, said
    assert "20 numbers not finite" in said, said  # 5 steps of norm, min, max and mean
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
    page_tests.check_policy(text, ("uplot", "preact", "htm"))
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


def check_browser(folder, pictures=None):
    report(folder, "-o", folder / "never.html", fails=True)  # tells whether there is a page at all
    page_tests.browser_tools(REPOSITORY)
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
    quiet = {"modules": 10, "steps": 80, "ranks": 1, "drift": None, "poison": None}
    monitor_data.Run(burst=("grad_reduced", 60), **quiet).write(folder / "burst")
    monitor_data.Run(never=4, **quiet).write(folder / "never")
    monitor_data.Run(scale=40.0, **quiet).write(folder / "scaled")
    monitor_data.Run(**quiet).write(folder / "plain")
    report(folder / "burst", "-o", folder / "burst.html")
    report(folder / "never", "-o", folder / "never.html")
    monitor_data.Run(absent=4, names=["layers.%d" % i if i != 4 else "" for i in range(10)], **quiet).write(folder / "absent")
    report(folder / "absent", "-o", folder / "absent.html")
    report(folder / "plain", folder / "scaled", "-o", folder / "scaled.html")
    report(folder / "plain", folder / "burst", "-o", folder / "divergence.html")
    report(folder / "plain", folder / "plain", "-o", folder / "agree.html")
    whole = (folder / "one.html").read_text()
    (folder / "cut.html").write_text(re.sub('<script type="text/plain" id="a0_0">.*?</script>', "", whole))
    page_tests.drive(
        REPOSITORY, "monitor_report_test.mjs", folder, pictures,
        only={"name": "layers.5.adapter.output", "rank": 1, "step": 99, "norm": other_truth["actv", "layers.5.adapter.output", 1, 99]},
        hook={"name": "layers.2.core", "rank": 1, "step": 7, "entropy": hooks_truth["attention_hook", "layers.2.core", 1, 7]},
        sample={"name": "layers.3.mlp.fc2.output", "rank": 2, "step": 77, "norm": truth["actv", "layers.3.mlp.fc2.output", 2, 77]})


if __name__ == "__main__":
    page_tests.main("report", check_file, check_browser)
