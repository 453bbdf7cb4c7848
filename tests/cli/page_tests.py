"""What the tests of pages (`--format html`, `monitor report`) share: the tools a browser needs, and what holds for each file."""
import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from page_blocks import with_plain_blocks

SKIP = 77
NO_PAGES = "this msprobe was built without the page"  # as its errors begin
HOSTILE = ["layers.0.</script><script>window.hurt=1</script>", 'layers.1."><img src=x onerror="window.hurt=1">', "layers.2.{{data}}<!--",
           "layers.3.${window.hurt=1}", "layers.4.\u4e2d\u6587\u202e\u00e9", "layers.5.a,b"]


def skip(reason):
    print("skipped: " + reason)
    sys.exit(SKIP)


def has_pages(program):
    """Whether `program` was built with its pages, as `doctor` tells it: they need packages that not every machine can fetch."""
    told = subprocess.run([str(program), "doctor"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False).stdout
    return b"built without the page" not in told  # that of doctor


def run(program, *arguments, fails=False):
    """What the program says; skips the test where it was built without pages. `fails`: the exit code must say so."""
    done = subprocess.run([str(program), *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    text = done.stdout.decode("utf-8", "replace")
    if NO_PAGES in text:
        skip("this msprobe was built without its pages; tools/dev/build_web.sh makes them")
    assert (done.returncode != 0) == fails, text
    return text


def without_command_line(page):
    """The bytes of a page apart from the command line in it, which is all that may differ between numbers of threads."""
    return re.sub(rb'"command_line": ?"(?:[^"\\]|\\.)*"', b'"command_line":""', with_plain_blocks(page))


def browser_tools(repository):
    """(Chromium, folder of the packages); skips the test where they are not."""
    chromium = shutil.which("chromium")
    modules = Path(os.environ.get("MSPROBE_WEB_MODULES", repository / "build-web/node_modules"))
    if chromium is None:
        skip("chromium is not installed (tools/install_dependencies.sh browser)")
    if shutil.which("node") is None:
        skip("node is not installed (tools/install_dependencies.sh page)")
    if not (modules / "playwright-core").is_dir():
        skip("playwright-core is not in %s (tools/dev/build_web.sh)" % modules)
    return chromium, modules


def drive(repository, script, folder, pictures=None, **facts):
    """Runs tests/web/SCRIPT over the pages in `folder` and ends with its exit code."""
    chromium, modules = browser_tools(repository)
    facts.update(folder=str(folder), chromium=chromium, modules=str(modules), pictures=str(pictures) if pictures else None, hostile=HOSTILE)
    (folder / "facts.json").write_text(json.dumps(facts))
    sys.exit(subprocess.run(["node", str(repository / "tests/web" / script), str(folder / "facts.json")], check=False).returncode)


def check_policy(page, packages=("preact", "htm")):
    """What must hold for the text of any page: one script and one style sheet that its policy names by their bytes, no host, the licences of what is inside."""
    assert not re.search(r'(src|href)\s*=\s*["\']?(https?:)?//', page), "the page refers to a host"
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page).group(1)
    for rule in ("default-src 'none'", "base-uri 'none'", "form-action 'none'"):
        assert rule in policy, policy
    assert "unsafe" not in policy and "http" not in policy and "*" not in policy, policy
    for element in ("script", "style"):
        text, = re.findall(r"<%s>(.*?)</%s>" % (element, element), page, re.S)
        allowed, = re.findall(r"%s-src 'sha256-([^']+)'" % element, policy)
        assert hashlib.sha256(text.encode()).digest() == base64.b64decode(allowed), element
    for name in packages:
        assert re.search(r"^%s [\d.]+ \(" % name, page, re.M) or ">%s " % name in page, "no licence of " + name


def main(name, check_file, check_browser):
    """What `TEST.py PROGRAM REPOSITORY file|browser|screenshots [FOLDER]` does, in a folder that is removed afterwards."""
    with tempfile.TemporaryDirectory(prefix="msprobe_" + name + "_") as folder:
        if sys.argv[3] == "file":
            check_file(Path(folder))
        else:
            check_browser(Path(folder), Path(sys.argv[4]).resolve() if sys.argv[3] == "screenshots" else None)
