"""Runs script.py of a folder in a process of its own: in a new interpreter, or in a copy of this one."""
import atexit
import faulthandler
import os
import runpy
import signal
import subprocess
import sys
import threading
import traceback


def run_anew(folder, arguments, environment, seconds=120):
    """(exit status, output) of script.py in this folder."""
    run = subprocess.run([sys.executable, "script.py"] + arguments, cwd=folder,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=seconds,
                         env=dict(os.environ, **environment))
    return run.returncode, run.stdout.decode("utf-8", "replace")


def run_forked(folder, arguments, environment, seconds=120):
    """The same in a copy of this process, which has imported PyTorch but computed nothing: the
    import takes longer than most scripts. A copy has one thread: where this process has more, as
    some libraries start when they are imported, their locks stay locked in it, and it may die."""
    if len(os.listdir("/proc/self/task")) > 1:
        return run_anew(folder, arguments, environment, seconds)
    sys.stdout.flush()
    sys.stderr.flush()
    path = os.path.join(folder, "output.txt")
    child = os.fork()
    if child == 0:
        _become_script(folder, path, arguments, environment, seconds)
    _, status = os.waitpid(child, 0)
    with open(path, encoding="utf-8", errors="replace") as file:
        return os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status), file.read()


def _become_script(folder, path, arguments, environment, seconds):
    status = 1
    try:
        os.chdir(folder)
        output = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        for number in (1, 2):
            os.dup2(output, number)
        faulthandler.enable()   # where it died, if it does
        os.environ.update(environment)
        sys.argv = ["script.py"] + arguments
        sys.path[0] = folder
        signal.alarm(seconds)
        runpy.run_path("script.py", run_name="__main__")
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    try:  # what an interpreter does when it ends
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)
