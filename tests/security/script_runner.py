"""script_runner.py SECONDS SCRIPT...: runs each script as its own process would, without importing the framework each time."""
import os
import runpy
import signal
import sys

import torch  # noqa: F401

for script in sys.argv[2:]:
    child = os.fork()
    if child == 0:
        signal.alarm(int(sys.argv[1]))
        os.chdir(os.path.dirname(script))
        sys.argv = [script] + (["--device", "cpu"] if os.path.basename(script) == "run.py" else [])
        os.environ["DEVICE"] = "cpu"
        try:
            runpy.run_path(script, run_name="__main__")
        except BaseException as error:  # pylint: disable=broad-except
            print("%s: %s: %s" % (os.path.basename(os.path.dirname(script)), type(error).__name__, str(error)[:200]))
        sys.stdout.flush()
        os._exit(0)
    os.waitpid(child, 0)
