"""free_benchmark.csv of a step, and beside it what its columns have no room for. A row is written
when it is found: a killed run has all rows up to its end."""
import collections
import math
import os

from msprobe import _native
from msprobe._files import csv_row
from msprobe._intercept.runtime import say_once

_HEADER = ("stage", "step", "api_name", "max_rel", "dtype", "shape", "output_index")
_DETAILS = ("rank", "step", "api_name", "output_index", "elements", "mean_ratio", "exceeding",
            "worst_index", "nonfinite_perturbed_only", "nonfinite_original_only")


# How the rows of a framework look: the column of the mode, the rank where there is one process alone,
# and whether names of calls end in the direction.
Form = collections.namedtuple("Form", "mode_column rank_of_one says_direction")


class _Table:
    def __init__(self, folder, name, header):
        os.makedirs(folder, mode=0o750, exist_ok=True)
        number = 1
        while True:  # rows of an earlier run stay
            stem = name if number == 1 else "%s_%d" % (name, number)
            self.path = os.path.join(folder, stem + ".csv")
            try:
                self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND,
                                     0o640)
                break
            except FileExistsError:
                number += 1
        if number > 1:
            say_once(_native.LOG_WARNING, "rows of an earlier run are in %s: those of this one go to "
                     "%s" % (folder, os.path.basename(self.path)), subject=("earlier", folder))
        self.write(header)

    def write(self, row):
        os.write(self._file, csv_row(row).encode("utf-8"))

    def close(self):
        os.close(self._file)


class Rows:
    """Of one step and rank; files exist from the first row on."""

    def __init__(self, settings, step, rank, form):
        self._folder = os.path.join(settings.dump_path, "step%d" % step,
                                    "rank" if rank < 0 else "rank%d" % rank)
        self._form = form
        self._rank = form.rank_of_one if rank < 0 else rank
        self._step = step
        self._mode = settings.mode
        self._stage = settings.stage
        self._tables = None

    def add(self, name, verdict):
        """`name`: without its direction."""
        if self._tables is None:
            self._tables = (_Table(self._folder, "free_benchmark",
                                   ("rank", self._form.mode_column) + _HEADER),
                            _Table(self._folder, "free_benchmark_details", _DETAILS))
        if self._form.says_direction:
            name = "%s.%s" % (name, self._stage)
        original = verdict.original
        index = "" if verdict.index is None else verdict.index
        shape = getattr(original, "shape", None)
        self._tables[0].write((self._rank, self._mode, self._stage, self._step, name,
                               verdict.max_rel, getattr(original, "dtype", ""),
                               "" if shape is None else str(shape), index))
        if verdict.details is not None:
            mean, exceeding, worst, born, gone = verdict.details
            self._tables[1].write((self._rank, self._step, name, index, math.prod(shape), mean,
                                   exceeding, worst, born, gone))

    def close(self):
        for table in self._tables or ():
            table.close()
        self._tables = None
