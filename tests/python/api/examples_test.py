"""Executes docs/how-to/notebook.ipynb and the examples of docs/python.md.

usage: examples_test.py [--update]     --update: writes what the cells of the notebook give into it

Code cells are executed in their order in one interpreter, without IPython; what the last line of a cell gives must be what the notebook
shows, where it shows anything. Where nbclient is installed, a real kernel executes it, too. In docs/python.md and its translation every
```pycon block is executed as doctest does it.
"""
import ast
import doctest
import json
import os
import re
import shutil
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from msprobe import _program

try:
    import numpy  # noqa: F401
except ImportError:
    print("skipped: numpy is not installed (tools/install_dependencies.sh test)")
    sys.exit(77)

REPOSITORY = Path(__file__).resolve().parents[3]
NOTEBOOK = REPOSITORY / "docs/how-to/notebook.ipynb"
sys.path.insert(0, str(REPOSITORY / "tests/cli"))
import page_tests  # noqa: E402


def value_of(source, names):
    """Executes a cell; the repr of its last expression, or None."""
    tree = ast.parse(source, str(NOTEBOOK))
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(NOTEBOOK), "exec"), names)
    if last is None:
        return None
    value = eval(compile(ast.Expression(last.value), str(NOTEBOOK), "eval"), names)
    if hasattr(value, "_repr_html_"):
        assert "<p>" in value._repr_html_()
        return None
    return None if value is None else repr(value)


@unittest.skipUnless(page_tests.has_pages(_program.find()), page_tests.NO_PAGES)  # they make some
class Examples(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="msprobe_examples_")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        shutil.copytree(REPOSITORY / "docs/example", self.folder / "docs/example")
        (self.folder / "docs/how-to").mkdir()
        before = Path.cwd()
        self.addCleanup(os.chdir, before)
        os.chdir(self.folder)

    def test_the_cells_of_the_notebook_give_what_it_shows(self):
        notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
        os.chdir("docs/how-to")
        names = {"__name__": "__main__"}
        with mock.patch.dict(sys.modules, IPython=None):
            for cell in notebook["cells"]:
                if cell["cell_type"] != "code":
                    continue
                given = value_of("".join(cell["source"]), names)
                if UPDATE:
                    cell["outputs"] = [] if given is None else [{"data": {"text/plain": [given]}, "execution_count": None, "metadata": {},
                                                                 "output_type": "execute_result"}]
                shown = ["".join(output["data"]["text/plain"]) for output in cell["outputs"]]
                self.assertEqual(shown, [] if given is None else [given], "".join(cell["source"]))
        if UPDATE:
            NOTEBOOK.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    def test_a_kernel_executes_the_notebook(self):
        try:
            import ipykernel  # noqa: F401
            import nbclient
            import nbformat
        except ImportError:
            self.skipTest("nbclient and ipykernel are not installed")
        notebook = nbformat.read(str(NOTEBOOK), as_version=4)
        nbformat.validate(notebook)
        nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(self.folder / "docs/how-to")}}).execute()
        shown = [output["data"] for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs if "data" in output]
        self.assertTrue(any("<table>" in data.get("text/html", "") for data in shown))

    def test_examples_of_the_page(self):
        for page in ("docs/python.md", "docs/python.zh.md"):
            if not (REPOSITORY / page).exists():
                continue
            text = (REPOSITORY / page).read_text(encoding="utf-8")
            blocks = re.findall(r"^```pycon\n(.*?)^```", text, re.S | re.M)
            self.assertGreater(len(blocks), 5)
            shutil.rmtree("result", ignore_errors=True)
            test = doctest.DocTestParser().get_doctest("\n".join(blocks), {}, page, page, 0)
            told = []
            doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE).run(test, out=told.append)
            self.assertEqual("".join(told), "")

    def test_all_functions_are_on_the_page(self):
        import msprobe
        text = (REPOSITORY / "docs/python.md").read_text(encoding="utf-8")
        for name in msprobe.__all__:
            if name.islower() and not name.startswith("_") and name != "monitor":
                self.assertIn("| `%s` |" % name, text)


if __name__ == "__main__":
    UPDATE = "--update" in sys.argv
    sys.argv[1:] = [argument for argument in sys.argv[1:] if argument != "--update"]
    unittest.main()
