"""Compiled graphs of a script that knows nothing of msprobe. Configuration: MSPROBE_COMPILE_CHECK_OVERRIDES."""
import json
import os
import sys

from msprobe.pytorch import compile_check


def activate():
    # Processes that compile for others import PyTorch as well.
    if any("compile_worker" in argument for argument in getattr(sys, "orig_argv", sys.argv)):
        return
    options = json.loads(os.environ.get("MSPROBE_COMPILE_CHECK_OVERRIDES") or "{}")
    compile_check.start(options.get("output", "./compile_checked"), None if options.get("all_steps") else options.get("steps", (0,)),
                        options.get("graphs"), options.get("kernels"), options.get("seconds"), options.get("megabytes"), options.get("repro"),
                        options.get("against"))
