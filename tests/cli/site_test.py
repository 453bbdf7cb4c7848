#!/usr/bin/env python3
"""The search of the site that tools/dev/build_site.sh made, from file:// in a headless Chromium, driven by tests/web/site_test.mjs.

usage: site_test.py SITE REPOSITORY

Skipped (exit 77) where Chromium, Node or the packages of tools/dev/build_web.sh are not.
"""
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import page_tests  # noqa: E402

if __name__ == "__main__":
    site, repository = (Path(argument).resolve() for argument in sys.argv[1:])
    page_tests.browser_tools(repository)
    with tempfile.TemporaryDirectory(prefix="msprobe_site_") as scratch:
        folder = Path(scratch) / "site"
        shutil.copytree(site, folder)
        page_tests.drive(repository, "site_test.mjs", folder)
