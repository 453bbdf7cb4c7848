"""Runs training code under a configuration in a process of its own, and gives its dump."""
import json
import os
import shutil
import tempfile
import textwrap
import unittest

from script_runs import run_anew, run_forked

HERE = os.path.dirname(os.path.abspath(__file__))

PROLOGUE = """
import os, sys
sys.path.insert(0, %r)
import torch
import torch.nn as nn
import torch.nn.functional as F
torch.set_num_threads(1)
torch.manual_seed(7)
from msprobe.pytorch import PrecisionDebugger, module_dump, module_dump_end
debugger = PrecisionDebugger("config.json")
""" % os.path.dirname(HERE)


class Dump:
    """The folder of a run: its steps as the JSON files hold them."""

    def __init__(self, folder, output):
        self.folder = folder
        self.output = output

    def path(self, *parts):
        return os.path.join(self.folder, "dump", *parts)

    def steps(self):
        return sorted(os.listdir(self.path())) if os.path.isdir(self.path()) else []

    def ranks(self, step=0):
        return sorted(os.listdir(self.path("step%d" % step)))

    def load(self, name, step=0, rank="rank"):
        with open(self.path("step%d" % step, rank, name)) as file:
            return json.load(file)

    def data(self, step=0, rank="rank", name="dump.json"):
        return self.load(name, step, rank)["data"]

    def names(self, step=0, rank="rank"):
        return list(self.data(step, rank))

    def construct(self, step=0, rank="rank"):
        return self.load("construct.json", step, rank)

    def files(self, step=0, rank="rank"):
        folder = self.path("step%d" % step, rank, "dump_tensor_data")
        return sorted(os.listdir(folder)) if os.path.isdir(folder) else []

    def tensor(self, name, step=0, rank="rank"):
        import torch
        folder = "reduced_tensor_data" if ".parameters_grad.reduced." in name else "dump_tensor_data"
        return torch.load(self.path("step%d" % step, rank, folder, name))

    def errors(self, step=0, rank="rank"):
        path = self.path("step%d" % step, rank, "dump_error_info.log")
        if not os.path.exists(path):
            return ""
        with open(path) as file:
            return file.read()


class ShimCase(unittest.TestCase):
    forks = False

    def folder(self):
        folder = tempfile.mkdtemp(prefix="msprobe_shim_")
        self.addCleanup(shutil.rmtree, folder, True)
        return folder

    def run_code(self, code, task="statistics", level="mix", prologue=PROLOGUE, section=None,
                 environment=None, arguments=(), ends_well=True, folder=None, **keys):
        folder = folder or self.folder()
        configuration = dict({"task": task, "level": level, "dump_path": "./dump",
                              task: section or {}}, **keys)
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(configuration, file)
        with open(os.path.join(folder, "script.py"), "w") as file:
            file.write(prologue + textwrap.dedent(code))
        run = run_forked if self.forks else run_anew
        status, output = run(folder, list(arguments), environment or {})
        if ends_well:
            self.assertEqual(status, 0, output[-3000:])
        return Dump(folder, output)


class ForkedCase(ShimCase):
    """Scripts start with PyTorch imported, which saves most of their time."""

    forks = True
