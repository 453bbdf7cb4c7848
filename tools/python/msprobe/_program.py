"""Where the program msprobe is that came with this package."""
import os
import shutil

# From the folder of the package: a build folder; an installation, an environment of pip; pip's --target.
_BESIDE_PACKAGE = ("../../bin/msprobe", "../../../../bin/msprobe", "../bin/msprobe")


def find():
    """The program that came with this package, else the one on PATH."""
    package = os.path.dirname(os.path.abspath(__file__))
    for relative in _BESIDE_PACKAGE:
        path = os.path.normpath(os.path.join(package, relative))
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    found = shutil.which("msprobe")
    if found is None:
        raise FileNotFoundError("the program msprobe is neither beside this package nor on PATH")
    return found
