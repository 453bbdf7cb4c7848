"""The fixture msprobe_golden, in a pytest of its own."""
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    import pytest  # noqa: F401
except ImportError:
    print("skipped: pytest is not installed (tools/install_dependencies.sh test)")
    sys.exit(77)

REPOSITORY = Path(__file__).resolve().parents[3]
TEST = """
import os, shutil
import pytest

@pytest.mark.parametrize("case", ["a/b", "第二"])
def test_the_run_is_as_it_was(msprobe_golden, tmp_path, case):
    shutil.copytree(os.environ["RUN"], tmp_path / "dump")
    result = msprobe_golden(tmp_path / "dump", **eval(os.environ.get("FLAGS", "{}")))
    assert result is None or result.verdict in ("IDENTICAL", "AGREE", "DIFFERENT")

def test_a_checkpoint(msprobe_golden, tmp_path):
    (tmp_path / "model.npy").write_bytes(open(os.environ["TENSOR"], "rb").read())
    msprobe_golden(tmp_path / "model.npy", command="ckpt_compare", name="after step 1")
"""
NPY = b"\x93NUMPY\x01\x00v\x00" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }".ljust(117) + b"\n"


class Plugin(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="msprobe_plugin_")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        (self.folder / "test_run.py").write_text(TEST, encoding="utf-8")
        (self.folder / "one.npy").write_bytes(NPY + b"\0\0\x80\x3f\0\0\0\x40")
        (self.folder / "two.npy").write_bytes(NPY + b"\0\0\x80\x3f\0\0\0\x41")

    def pytest(self, *arguments, run="bench", tensor="one.npy", code=0, **environment):
        done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "msprobe.pytest_plugin", *arguments],
                              cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              env=dict(os.environ, RUN=str(REPOSITORY / "docs/example" / run), TENSOR=str(self.folder / tensor),
                                       PYTHONDONTWRITEBYTECODE="1", **environment))
        self.assertEqual(done.returncode, code, done.stdout)
        return done.stdout

    def test_a_run_is_compared_with_what_was_stored(self):
        self.assertIn("run pytest with --msprobe-update once", self.pytest(code=1))
        self.pytest("--msprobe-update")
        stored = sorted(path.name for path in (self.folder / "msprobe_golden").iterdir())
        self.assertEqual(stored, ["test_run-test_a_checkpoint-after_step_1.npy", "test_run-test_the_run_is_as_it_was_a_b",
                                  "test_run-test_the_run_is_as_it_was_u7b2c_u4e8c"])
        self.pytest()
        told = self.pytest(run="npu", tensor="two.npy", code=1)
        for text in ("DIFFERENT: it starts with a parameter of blocks.0.mlp.fc1 (Linear)", "models.py:43", "Next: ", "3 failed",
                     "DIFFERENT: 1 of 1 common parameter", "--msprobe-update stores this run in its place"):
            self.assertIn(text, told)
        self.assertNotIn("Traceback", told)
        self.pytest("--msprobe-update", run="npu", tensor="two.npy")
        self.pytest(run="npu", tensor="two.npy")

    def test_levels_and_flags_are_the_command_s(self):
        self.pytest("--msprobe-update", "-k", "the_run")
        self.pytest("-k", "the_run", run="npu", FLAGS="{'rtol': 1e3, 'atol': 1e3}")
        self.pytest("-k", "the_run", run="npu", FLAGS="{'fail_on': []}")
        self.assertIn("--rtol", self.pytest("-k", "the_run", run="npu", code=1, FLAGS="{'rtol': -1}"))

    def test_the_references_may_be_elsewhere(self):
        self.pytest("--msprobe-update", "--msprobe-golden", "kept")
        self.assertTrue((self.folder / "kept").is_dir())
        self.assertFalse((self.folder / "msprobe_golden").exists())
        self.pytest("--msprobe-golden", "kept")
        self.assertEqual([name for name in os.listdir(self.folder / "kept") if name.endswith(".part")], [])

    def test_two_runs_of_one_test_need_names(self):
        (self.folder / "test_run.py").write_text("def test_it(msprobe_golden):\n    msprobe_golden('one.npy', command='ckpt_compare')\n"
                                                 "    msprobe_golden('one.npy', command='ckpt_compare')\n", encoding="utf-8")
        self.assertIn("give each a name", self.pytest("--msprobe-update", code=1))


if __name__ == "__main__":
    unittest.main()
