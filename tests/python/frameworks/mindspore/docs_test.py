"""Executes docs/how-to/mindspore.md, as docs_test.py executes the other pages."""
import os
import subprocess
import sys
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[3]
sys.path[:0] = [str(HERE.parent), str(REPOSITORY / "tests" / "cli")]
import docs_test as pages  # noqa: E402
import harness  # noqa: E402

PAGE = REPOSITORY / "docs" / "how-to" / "mindspore.md"
TORCH = "/usr/bin/python3"


class Page(harness.FrameworkCase, pages.Docs):
    framework = "mindspore"
    subject = "the examples of the guide"

    @staticmethod
    def environment(folder):
        (folder / "bin").mkdir()
        (folder / "bin" / "msprobe").symlink_to(harness.MSPROBE)
        # No link: a virtual environment is found beside the name that was called.
        (folder / "bin" / "python3").write_text('#!/bin/sh\nexec "%s" "$@"\n' % sys.executable)
        (folder / "bin" / "python3").chmod(0o755)
        return dict(os.environ, PATH="%s:%s" % (folder / "bin", os.environ["PATH"]), LC_ALL="C.UTF-8", TERM="dumb")

    def test_examples(self):
        with self.checking("works"):
            if subprocess.run([TORCH, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode != 0:
                raise unittest.SkipTest("no PyTorch for " + TORCH)
            folder, environment = self.prepare("docs_how-to_mindspore.md")
            self.msprobe("-q", "dump", "--dump_path", str(folder / "golden"), "--level", "mix", "--", TORCH,
                         str(folder / "docs/example/mindspore/twin_torch.py"))
            blocks = pages.console_blocks(PAGE)
            self.assertGreater(len(blocks), 3)
            for number, steps in blocks:
                self.check_block(steps, folder, environment, "docs/how-to/mindspore.md:%d" % number)


if __name__ == "__main__":
    pages.MSPROBE, pages.REPOSITORY = Path(harness.MSPROBE), REPOSITORY
    unittest.main(verbosity=2, argv=[sys.argv[0], "Page.test_examples"])
