"""The examples of docs/how-to/frameworks.md, executed with the real frameworks."""
import os
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[3]
sys.path[:0] = [str(HERE.parent), str(REPOSITORY / "tests/cli")]
import docs_test  # noqa: E402
import harness  # noqa: E402

docs_test.REPOSITORY = REPOSITORY
docs_test.MSPROBE = Path(harness.MSPROBE)


class Guide(harness.FrameworkCase):
    framework = "transformers"

    def test_examples_print_what_the_guide_shows(self):
        page = REPOSITORY / "docs/how-to/frameworks.md"
        docs = docs_test.Docs("test_commands_stand_in_executed_blocks")  # for its methods alone
        docs.setUp()
        self.addCleanup(docs.doCleanups)
        folder, environment = docs.prepare("docs_how-to_frameworks.md")
        # A link would hide the virtual environment from Python.
        (folder / "bin/python3").unlink()
        (folder / "bin/python3").write_text('#!/bin/sh\nexec %s "$@"\n' % sys.executable)
        (folder / "bin/python3").chmod(0o755)
        environment.update(PYTHONWARNINGS="ignore", TRANSFORMERS_VERBOSITY="error", DS_ACCELERATOR="cpu")
        blocks = docs_test.console_blocks(page)
        self.assertGreater(len(blocks), 2)
        with self.checking("works", "the examples of the guide"):
            for number, steps in blocks:
                docs.check_block(steps, folder, environment, "%s:%d" % (page.name, number))


if __name__ == "__main__":
    unittest.main(verbosity=2)
