"""The pytest fixture `msprobe_golden`: a run against a stored reference.

    def test_the_step_is_as_it_was(msprobe_golden, tmp_path):
        train(dump_to=tmp_path / "dump")
        msprobe_golden(tmp_path / "dump")

`pytest --msprobe-update` stores what the tests made as their references, in the folder `msprobe_golden` beside the test file (another one:
`--msprobe-golden DIR`). An installed msprobe brings the plugin along (entry point pytest11); from a folder on PYTHONPATH it is loaded with
`-p msprobe.pytest_plugin`.
"""
from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any, List, Optional, Sequence, Union

import pytest

import msprobe

# What a run may be: the command that compares it, and the levels at which the fixture fails.
_LEVELS = {"compare": ("different",), "ckpt_compare": ("different", "missing", "nan"), "grad_compare": ("diverged",),
           "monitor.diff": ("different",), "config_check": ("error",), "graph": ("different", "unmatched")}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("msprobe")
    group.addoption("--msprobe-update", action="store_true", help="store what tests give to msprobe_golden as their references")
    group.addoption("--msprobe-golden", metavar="DIR", default=None,
                    help="folder of the references (default: msprobe_golden beside each test file)")


class Golden:
    """The fixture: golden(path), or golden(path, name="after warm-up")."""

    def __init__(self, folder: Path, test: str, update: bool) -> None:
        self.folder = folder    # of the references, pathlib.Path
        self.update = update    # whether references are stored
        self._test = test
        self._names: List[str] = []

    def reference(self, name: Optional[str] = None, suffix: str = "") -> Path:
        """Where the reference of this test is stored."""
        stem = self._test if name is None else "%s-%s" % (self._test, name)
        return self.folder / (re.sub(r"[^\w.=-]+", "_", stem).strip("_.-") + suffix)

    def __call__(self, path: Union[str, os.PathLike[str]], name: Optional[str] = None, command: str = "compare",
                 fail_on: Union[str, Sequence[str], None] = None, **flags: Any) -> Optional[msprobe.Result]:
        """Compares `path`, a dump, a checkpoint or another run, with the reference stored under this test (and `name`, where a test has
        several), and fails the test with the verdict and the first divergence. With --msprobe-update it stores `path` instead.

        command: "compare" (dumps), "ckpt_compare" (a checkpoint, a folder or one file), "monitor.diff", "grad_compare", "config_check" or
            "graph"
        fail_on: levels at which the test fails; without it: any difference beyond the noise of the dtype
        flags: of the command, such as rtol=1e-3

        Returns the msprobe.Result, None where a reference was stored. Raises msprobe.InputError, UsageError.
        """
        __tracebackhide__ = True
        made = Path(path)
        reference = self.reference(name, made.suffix if made.is_file() else "")
        if reference.name in self._names:
            raise ValueError("%s is compared twice in this test: give each a name" % reference.name)
        self._names.append(reference.name)
        if self.update:
            self._store(made, reference)
            return None
        if not reference.exists():
            pytest.fail("no reference %s: run pytest with --msprobe-update once, look at what it stores, and keep it with the tests"
                        % reference, pytrace=False)
        function: Any = msprobe
        for part in command.split("."):
            function = getattr(function, part)
        levels = list(_LEVELS.get(command, ())) if fail_on is None else fail_on
        result: msprobe.Result = function(made, reference, fail_on=levels, **flags)
        if result.exit_code != 0:
            pytest.fail(_message(result, made, reference), pytrace=False)
        return result

    @staticmethod
    def _store(made: Path, reference: Path) -> None:
        if not made.exists():
            raise msprobe.InputError("%s does not exist: nothing to store" % made)
        reference.parent.mkdir(parents=True, exist_ok=True)
        unfinished = reference.with_name(reference.name + ".part")
        _remove(unfinished)
        if made.is_dir():
            shutil.copytree(made, unfinished)
        else:
            shutil.copyfile(made, unfinished)
        _remove(reference)
        unfinished.rename(reference)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.exists() or path.is_symlink():
        path.unlink()


def _message(result: msprobe.Result, made: Path, reference: Path) -> str:
    lines = [result.text or result.verdict]
    if result.first is not None and result.first.text != result.text:
        lines.append("  %r" % result.first)
        lines += ["    %s" % text if label == "why" else "    %s: %s" % (label, text) for label, text in result.first.details.items()]
    lines += ["  Next: " + sentence for sentence in result.next]
    lines += ["made by this test: %s" % made, "reference: %s (--msprobe-update stores this run in its place)" % reference]
    return "\n".join(lines)


@pytest.fixture
def msprobe_golden(request: pytest.FixtureRequest) -> Golden:
    """Compares what a test made with the stored reference: see msprobe.pytest_plugin.Golden."""
    named = request.config.getoption("--msprobe-golden")
    folder = Path(named).absolute() if named else request.path.parent / "msprobe_golden"
    test = "%s-%s" % (request.path.stem, request.node.name)
    return Golden(folder, test, bool(request.config.getoption("--msprobe-update")))
