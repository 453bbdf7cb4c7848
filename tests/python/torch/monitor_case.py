"""Runs training code under a monitor's configuration in a process of its own, and gives what it wrote."""
import csv
import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import unittest

from script_runs import run_forked

HERE = os.path.dirname(os.path.abspath(__file__))

PROLOGUE = """
import os, sys
sys.path.insert(0, %r)
import torch
import torch.nn as nn
import torch.nn.functional as F
torch.set_num_threads(1)
torch.manual_seed(7)
from msprobe._intercept.modules import ModuleCalls
from msprobe.pytorch import TrainerMon
""" % os.path.dirname(HERE)


class Written:
    """What a run left below its output folder."""

    def __init__(self, folder, said):
        self.folder = folder
        self.said = said

    def path(self, *parts):
        return os.path.join(self.folder, "out", *parts)

    def ranks(self):
        """The folders of all ranks, in their order."""
        return sorted(glob.glob(self.path("*-rank*")), key=lambda path: path.partition("-rank")[2])

    def tables(self, rank=0):
        """{file name: text} of one rank's tables."""
        found = {}
        for folder in self.ranks():
            if "-rank%d-" % rank in os.path.basename(folder):
                for path in glob.glob(os.path.join(folder, "*.csv")):
                    with open(path, encoding="utf-8", newline="") as file:
                        found[os.path.basename(path)] = file.read()
        return found

    def rows(self, name, rank=0):
        """The rows of a table as dictionaries."""
        return list(csv.DictReader(self.tables(rank)[name].splitlines()))

    def names(self, name, rank=0):
        return [row["name"] for row in self.rows(name, rank)]


class MonitorCase(unittest.TestCase):
    forks = False

    def folder(self):
        folder = tempfile.mkdtemp(prefix="msprobe_monitor_")
        self.addCleanup(shutil.rmtree, folder, True)
        return folder

    def run_script(self, configuration, command, environment=None, folder=None, ends_well=True, timeout=300,
                   forks=False):
        folder = folder or self.folder()
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(configuration, file)
        environment = dict({"MONITOR_OUTPUT_DIR": os.path.join(folder, "out")}, **(environment or {}))
        if forks:
            status, said = run_forked(folder, command[2:], environment)
        else:
            run = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 timeout=timeout, env=dict(os.environ, **environment))
            status, said = run.returncode, run.stdout.decode("utf-8", "replace")
        if ends_well:
            self.assertEqual(status, 0, said[-3000:])
        return Written(folder, said)

    def run_code(self, code, configuration=None, prologue=PROLOGUE, arguments=(), folder=None, **options):
        folder = folder or self.folder()
        with open(os.path.join(folder, "script.py"), "w", encoding="utf-8") as file:
            file.write(prologue + textwrap.dedent(code))
        return self.run_script(configuration if configuration is not None else {},
                               [sys.executable, "script.py"] + list(arguments), folder=folder,
                               forks=self.forks and "timeout" not in options, **options)


class ForkedMonitorCase(MonitorCase):
    """Scripts start with PyTorch imported, which saves most of their time."""

    forks = True
