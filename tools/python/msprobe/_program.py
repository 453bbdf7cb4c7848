"""Where the program msprobe is that came with this package."""
import os
import shutil
import subprocess
import sys

# From the folder of the package: a build folder; an installation, an environment of pip; pip's --target.
_BESIDE_PACKAGE = ("../../bin/msprobe", "../../../../bin/msprobe", "../bin/msprobe")


def find() -> str:
    """The program that $MSPROBE names, else the one that came with this package, else the one on PATH. FileNotFoundError: none."""
    named = os.environ.get("MSPROBE")
    if named:
        if not (os.access(named, os.X_OK) and os.path.isfile(named)):
            raise FileNotFoundError("$MSPROBE names %s, which is not a program" % named)
        return os.path.abspath(named)  # "msprobe" would be looked for on PATH
    package = os.path.dirname(os.path.abspath(__file__))
    for relative in _BESIDE_PACKAGE:
        path = os.path.normpath(os.path.join(package, relative))
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    found = shutil.which("msprobe")
    if found is None:
        raise FileNotFoundError("the program msprobe is neither beside this package nor on PATH")
    return os.path.abspath(found)


def run(arguments: "list[str]") -> None:
    """Runs the program; what it prints goes to this process's streams. RuntimeError with its messages where it fails."""
    done = subprocess.run([find(), *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    problems = done.stderr.decode("utf-8", "replace")
    if done.returncode != 0:
        raise RuntimeError(problems.strip() or "msprobe ended with %d" % done.returncode)
    sys.stdout.write(done.stdout.decode("utf-8", "replace"))
    sys.stderr.write(problems)
