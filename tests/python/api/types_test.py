"""The types of the package, as mypy sees them: it is consistent in itself, and a wrong call is found before it runs."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import mypy  # noqa: F401
    import numpy  # noqa: F401
except ImportError:
    print("skipped: mypy and numpy are not installed")
    sys.exit(77)

import msprobe

PACKAGE = Path(msprobe.__file__).parent
TYPED = ("__init__", "_arrays", "_commands", "_files", "_program", "_results", "_version")
CALLER = """
from pathlib import Path
import msprobe

r = msprobe.compare("a", Path("b"), fail_on=["different"], rtol=1e-3)
verdict: str = r.verdict
line: int = r.first.line if r.first is not None and r.first.line is not None else 0
shape: tuple[int, ...] = msprobe.load("x.npy")["x"].shape
wrong = msprobe.compare("a", "b", no_such_flag=1)
wrong_too: int = msprobe.monitor.diff("a", "b").verdict
"""


class Types(unittest.TestCase):
    def mypy(self, *arguments):
        done = subprocess.run([sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.devnull, *map(str, arguments)], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, env=dict(os.environ, MYPYPATH=str(PACKAGE.parent)))
        return [line for line in done.stdout.splitlines() if ": error:" in line]

    def test_the_package_is_consistent(self):
        self.assertEqual(self.mypy(*(PACKAGE / (name + ".py") for name in TYPED)), [])

    def test_a_wrong_call_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            caller = Path(folder) / "caller.py"
            caller.write_text(CALLER, encoding="utf-8")
            errors = self.mypy(caller)
        self.assertEqual(len(errors), 2, errors)
        self.assertIn("no_such_flag", errors[0])
        self.assertIn('variable has type "int"', errors[1])


if __name__ == "__main__":
    unittest.main()
