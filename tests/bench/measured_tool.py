"""Which tool a bench measures. A figure belongs to the package `msprobe` that its workers import, and that is whatever PYTHONPATH finds
first: so the package is looked up in a process of its own, as a worker would, named in the output, and refused when it is another one
than the bench was asked for."""
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OURS = os.path.join(ROOT, "build", "python")
# Ours is the one with an extension; of the Python tool the distribution has another name.
FIND = """
import importlib.metadata, importlib.util, json, os
spec = importlib.util.find_spec("msprobe")
folder = os.path.dirname(spec.origin) if spec and spec.origin else None
ours = bool(folder) and os.path.exists(os.path.join(folder, "_native.abi3.so"))
def version(name):
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None
print(json.dumps({"folder": folder, "ours": ours, "version": None if ours else version("mindstudio-probe")}))
"""


def find(place):
    """{"folder", "ours", "version"} of the package msprobe that a process with this PYTHONPATH imports; folder None: there is none."""
    # Neither the working directory nor this folder may stand in for PYTHONPATH.
    ended = subprocess.run([sys.executable, "-c", FIND], env=dict(os.environ, PYTHONPATH=place), cwd=os.path.join(ROOT, "tests", "bench"),
                           stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(ended.stdout)


def name(found):
    return "%s in %s" % ("msprobe" if found["ours"] else "mindstudio-probe %s" % (found["version"] or "(version unknown)"), found["folder"])


def place_of(peer=None):
    """The PYTHONPATH for workers: of this build, or of the tool in the folder `peer`, behind it what PYTHONPATH has. Prints what is
    measured. Ends the bench where another package would be imported than the one that was asked for."""
    inherited = os.environ.get("PYTHONPATH", "")
    if peer is None and inherited and find(inherited)["folder"]:
        place = inherited
    else:
        place = os.pathsep.join([peer or OURS] + ([inherited] if inherited else []))
    found = find(place)
    if found["folder"] is None:
        sys.exit("error: no package msprobe in %s\n  hint: tools/quickstart.sh builds it; --peer FOLDER measures the tool that is installed in FOLDER" % place)
    if peer is None and not found["ours"]:
        sys.exit("error: PYTHONPATH leads to another tool, %s\n  hint: --peer FOLDER measures that one" % name(found))
    if peer is not None and not os.path.realpath(found["folder"]).startswith(os.path.realpath(peer) + os.sep):
        sys.exit("error: asked for the tool in %s, found %s" % (peer, name(found)))
    print("measured: %s" % name(found), flush=True)
    return place
