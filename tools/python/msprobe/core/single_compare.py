"""What SingleSave stored of two runs, compared by the program msprobe."""
import os

from msprobe import _program


class SingleComparator:
    """The Python face of `msprobe rl_compare`."""

    @staticmethod
    def compare(dir1, dir2, output_path="./msprobe_compare_output", num_processes=8):
        """Writes <output_path>/<key>.xlsx for every key of either folder, with the columns and
        values of the Python tool."""
        _program.run(["rl_compare", "-a", os.fspath(dir1), "-b", os.fspath(dir2), "-o",
                      os.fspath(output_path), "--compat", "--threads", str(max(1, int(num_processes)))])
