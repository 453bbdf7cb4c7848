#!/usr/bin/env python3
"""Calls the program on inputs that no test of the command line reads as they are: every golden tensor file, dump and table, as
every form of answer; and asks for every help, manual page and completion.

usage: direct_calls.py MSPROBE REPOSITORY GOLDEN

What the calls give is compared by same_results.py; here they only must not end by a signal.
"""
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

TENSOR_FILES = (".pt", ".npy", ".npz", ".safetensors", ".ckpt", ".bin", ".zip")


def helps(msprobe):
    """The calls that print the help of every command."""
    def below(command):
        yield [*command["command"].split()[1:], "--help"]
        for subcommand in command["subcommands"]:
            yield from below(subcommand)
    yield from below(json.loads(subprocess.run([msprobe, "help", "--format", "json"], stdout=subprocess.PIPE, check=True).stdout))


def texts(msprobe):
    yield from helps(msprobe)
    yield ["help", "--man-pages", "man"]
    for shell in ("bash", "zsh", "fish"):
        yield ["completion", shell]


def calls(repository, golden):
    example = repository / "docs/example"
    for file in sorted((golden / "formats").rglob("*")) + sorted((repository / "tests/data/formats").rglob("*")):
        if file.is_file() and file.suffix in TENSOR_FILES:
            yield ["show", str(file), "--stats"]
    for folder in sorted((golden / "dump").iterdir()) + sorted((golden / "dump_torch2").iterdir()):
        if folder.is_dir():
            yield ["show", str(folder)]
            twin = folder.with_name(folder.name + "_perturbed")
            for form in ("csv", "xlsx", "html") if twin.is_dir() else ():
                yield ["compare", str(folder), str(twin), "-o", "out", "--format", form]
                yield ["compare", str(folder), str(twin), "-o", "out", "--json"]
    for folder in sorted((golden / "nan_analyze").iterdir()):
        if folder.is_dir():
            yield ["nan_analyze", "-i", str(folder), "-o", "out", "--format", "html"]
            yield ["nan_analyze", "-i", str(folder), "-o", "out", "--json"]
    for form in ("xlsx", "csv", "html"):
        yield ["compare", str(example / "npu"), str(example / "bench"), "-o", "out", "--format", form]
    yield ["perf_compare", "-d", str(example / "profiles/after_ascend_pt"), "-bp", str(example / "profiles/before_ascend_pt"), "-o", "out"]
    yield ["config_check", "-c", str(example / "config_check/gpu.zip"), str(example / "config_check/npu.zip"), "-o", "out"]


def main():
    msprobe, repository, golden = sys.argv[1], Path(sys.argv[2]).resolve(), Path(sys.argv[3]).resolve()
    ended = {}
    for call in itertools.chain(texts(msprobe), calls(repository, golden)):
        with tempfile.TemporaryDirectory() as folder:
            run = subprocess.run([msprobe] + call, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL, timeout=600, check=False)
        ended.setdefault(run.returncode, []).append(" ".join(call))
    for code, those in sorted(ended.items()):
        print("exit code %d: %d calls, the first: %s" % (code, len(those), those[0]))
    return 1 if not ended or min(ended) < 0 else 0


if __name__ == "__main__":
    sys.exit(main())
