"""What the task grad_probe wrote of two runs, compared by the program msprobe."""
import os

from msprobe import _program


class GradComparator:
    """The Python face of `msprobe grad_compare`."""

    @staticmethod
    def compare_distributed(dump_path1, dump_path2, output_dir):
        """Writes <output_dir>/rank<R>/similarities.csv of every rank that both runs have, in place of
        an earlier one."""
        _program.run(["grad_compare", os.fspath(dump_path1), os.fspath(dump_path2), "-o",
                      os.fspath(output_dir), "--force"])
