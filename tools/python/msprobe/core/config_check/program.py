"""The program msprobe: it collects what a process need not be asked for, and compares."""
import os
import subprocess
import sys
import tempfile
import zipfile

from msprobe import _program
from msprobe.core.config_check import notice

_LONGEST_S = 120


def collect(framework, inputs, dynamic):
    """Members {name: bytes} for the environment, the packages, and the hyperparameters of `inputs`
    (launch scripts and configs) and of the running program (`dynamic`: a JSON text or None)."""
    with tempfile.TemporaryDirectory(prefix="msprobe_") as folder:
        pack = os.path.join(folder, "config_check_pack.zip")
        command = [_program.find(), "-f", framework, "config_check", "-o", pack,
                   "--python", sys.executable]
        if dynamic is not None:
            command += ["--dynamic", os.path.join(folder, "dynamic.json")]
            with open(command[-1], "w", encoding="utf-8") as file:
                file.write(dynamic)
        # The process inherits this one's variables: they are what is collected.
        done = subprocess.run(command + ["-d"] + inputs, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=_LONGEST_S)
        output = done.stdout.decode("utf-8", "replace").strip()
        if not os.path.exists(pack):
            raise RuntimeError("%s ended with %d: %s" % (command[0], done.returncode, output))
        if done.returncode != 0:  # an input that could not be read: the rest is there
            notice.once(output)
        with zipfile.ZipFile(pack) as archive:
            return {name: archive.read(name) for name in archive.namelist()}


def compare(framework, bench, cmp, output):
    """Compares two packs; the verdict goes to the standard output. Results of an earlier comparison
    in the folder are replaced, nothing else."""
    _program.run(["-f", framework, "config_check", "-c", os.fspath(bench), os.fspath(cmp), "-o", os.fspath(output),
                  "--force"])
