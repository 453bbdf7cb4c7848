"""What SingleSave stored of two runs, compared by the program msprobe."""
import os
import subprocess
import sys

from msprobe import _program


class SingleComparator:
    """The Python face of `msprobe rl_compare`."""

    @staticmethod
    def compare(dir1, dir2, output_path="./msprobe_compare_output", num_processes=8):
        """Writes <output_path>/<key>.xlsx for every key of either folder, with the columns and
        values of the Python tool."""
        command = [_program.find(), "rl_compare", "-a", os.fspath(dir1), "-b", os.fspath(dir2), "-o",
                   os.fspath(output_path), "--compat", "--threads", str(max(1, int(num_processes)))]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        problems = done.stderr.decode("utf-8", "replace")
        if done.returncode != 0:
            raise RuntimeError(problems.strip() or "msprobe ended with %d" % done.returncode)
        sys.stdout.write(done.stdout.decode("utf-8", "replace"))
        sys.stderr.write(problems)
