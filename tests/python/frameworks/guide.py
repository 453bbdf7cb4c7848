"""Sections of docs/how-to/frameworks.md, executed with the framework that each of them is about."""
import os
import re
import sys
from pathlib import Path

import harness

REPOSITORY = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(REPOSITORY / "tests/cli"))
import docs_test  # noqa: E402

PAGE = REPOSITORY / "docs/how-to/frameworks.md"
docs_test.REPOSITORY = REPOSITORY
docs_test.MSPROBE = Path(harness.MSPROBE)


def sections():
    """(heading, line of the block, its steps) of every block of the page."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    for number, steps in docs_test.console_blocks(PAGE):
        yield next(line[3:] for line in reversed(lines[:number]) if line.startswith("## ")), number, steps


class GuideCase(harness.FrameworkCase):
    subject = "the examples of the guide"
    environment = {}

    def check_sections(self, wanted, least):
        """wanted(heading): whether its blocks are executed, of which there are at least so many."""
        docs = docs_test.Docs("test_commands_stand_in_executed_blocks")  # for its methods alone
        docs.setUp()
        self.addCleanup(docs.doCleanups)
        folder, environment = docs.prepare("docs_how-to_frameworks.md")
        # A link would hide the virtual environment from Python.
        (folder / "bin/python3").unlink()
        for name, command in (("python3", ""), ("torchrun", "-m torch.distributed.run ")):
            (folder / "bin" / name).write_text('#!/bin/sh\nexec %s %s"$@"\n' % (sys.executable, command))
            (folder / "bin" / name).chmod(0o755)
        environment.update(PYTHONWARNINGS="ignore", OMP_NUM_THREADS="1", **self.environment)
        environment["PYTHONPATH"] += os.pathsep + self.further_path(folder)
        blocks = [(number, steps) for heading, number, steps in sections() if wanted(heading)]
        self.assertGreaterEqual(len(blocks), least)
        with self.checking("works"):
            for number, steps in blocks:
                docs.check_block(steps, folder, environment, "%s:%d" % (PAGE.name, number))

    def further_path(self, folder):
        """What programs of the page find beside msprobe."""
        return ""


def is_about(*words):
    return re.compile("|".join(words)).search
