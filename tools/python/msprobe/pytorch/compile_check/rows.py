"""compile_check.csv: a row per kernel and output, its worst call, in the order in which kernels first ran."""
import csv
import os
import tempfile

COLUMNS = ("graph", "kernel", "nodes", "module", "code", "output", "dtype", "error", "bound", "verdict", "reason")
RIGHT, WRONG, NOT_CHECKED = "right", "wrong", "not checked"
# A row gets worse, never better.
_WORSE = {NOT_CHECKED: 0, RIGHT: 1, WRONG: 2}


class Rows:
    """The rows of one process. `path`: of the table, written anew after every checked call that changed it. `kernels`: only
    these get rows; None: all."""

    def __init__(self, path, kernels=None):
        self.path = path
        self._kernels = kernels
        self._places = {}
        self._rows = {}
        self._ratios = {}
        self.changed = False

    def seen(self, graph, kernel, output):
        """An output that a kernel leaves; its row comes here, however late it is known what it says."""
        self._places.setdefault((graph, kernel, output), len(self._places))

    def add(self, graph, kernel, output, verdict, ratio=0.0, **columns):
        if self._kernels is not None and kernel not in self._kernels:
            return
        key = (graph, kernel, output)
        self.seen(*key)
        before = self._rows.get(key)
        if before is not None:
            worse = _WORSE[verdict] - _WORSE[before["verdict"]]
            if worse < 0 or worse == 0 and ratio <= self._ratios[key]:
                return
        self._rows[key] = dict(columns, graph=graph, kernel=kernel, output=output, verdict=verdict)
        self._ratios[key] = ratio
        self.changed = True

    def counts(self):
        verdicts = [row["verdict"] for row in self._rows.values()]
        return {verdict: verdicts.count(verdict) for verdict in (RIGHT, WRONG, NOT_CHECKED)}

    def wrong(self):
        return [row for row in self._rows.values() if row["verdict"] == WRONG]

    def write(self):
        """The whole table, or the one before it."""
        if not self.changed:
            return
        folder = os.path.dirname(self.path)
        os.makedirs(folder, exist_ok=True)
        handle, unfinished = tempfile.mkstemp(dir=folder, prefix=".compile_check")
        try:
            with os.fdopen(handle, "w", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS, restval="")
                writer.writeheader()
                writer.writerows(self._rows[key] for key in sorted(self._rows, key=self._places.get))
            os.replace(unfinished, self.path)
        except BaseException:
            os.unlink(unfinished)
            raise
        self.changed = False
