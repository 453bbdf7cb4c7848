#!/usr/bin/env python3
"""`msprobe serve` in a real browser: tests/web/serve_test.mjs.

usage: serve_page_test.py MSPROBE REPOSITORY browser

Skipped (exit 77) where Chromium, Node or the packages of tools/dev/build_web.sh are not, or when this msprobe was built without its pages.
"""
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import page_tests  # noqa: E402

MSPROBE, REPOSITORY = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
# What a page from somebody else would try.
FOREIGN = """<!doctype html><title>begun</title><script>
fetch('./', { method: 'GET' }).then((answer) => answer.text()).then((text) => { document.title = `done: ${self.origin} read ${text.length}`; })
  .catch(() => { document.title = `done: ${self.origin} refused`; });
</script>"""


def check_browser(folder, pictures):
    page_tests.browser_tools(REPOSITORY)
    example = REPOSITORY / "docs/example"
    page_tests.run(MSPROBE, "compare", example / "npu/step0", example / "bench/step0", "-o", folder / "results", "--format", "html")
    page_tests.run(MSPROBE, "graph", example / "npu/step0", example / "bench/step0", "-o", folder / "results", "--format", "db")
    page_tests.run(MSPROBE, "nan_analyze", REPOSITORY / "tests/data/nan_analyze/p2p_chain/step0", "-o", folder / "results/nan", "--format", "html")
    graph, = (folder / "results").glob("*.vis.db")
    (folder / "results/foreign.html").write_text(FOREIGN)
    (folder / "results/damaged.vis.db").write_bytes(graph.read_bytes()[:100_000])
    with subprocess.Popen([str(MSPROBE), "serve", str(folder / "results")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert "until Ctrl-C" in server.stderr.readline()
            address = server.stdout.readline().strip()
            assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[0-9a-f]{32}/", address), address
            page_tests.drive(REPOSITORY, "serve_test.mjs", folder, pictures, server=address, graph=address + "files/" + graph.name,
                             foreign=address + "files/foreign.html", damaged=address + "files/damaged.vis.db")
        finally:
            server.terminate()


if __name__ == "__main__":
    page_tests.main("serve_page", None, check_browser)
