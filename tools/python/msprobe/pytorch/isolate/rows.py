"""isolate.csv of a step and rank: a row per comparison. It gets its name when the step is complete."""
import os

from msprobe._files import csv_row

HEADER = ("rank", "step", "module", "class", "call", "direction", "what", "error", "floor", "factor",
          "verdict", "cause")


class Rows:
    def __init__(self, folder, rank, step):
        os.makedirs(folder, mode=0o750, exist_ok=True)
        self.path = os.path.join(folder, "isolate.csv")
        if os.path.exists(self.path):
            raise ValueError("%s exists: give another folder" % self.path)
        self._begun = self.path + ".part"
        self._file = open(self._begun, "w", newline="", encoding="utf-8")
        self._file.write(csv_row(HEADER))
        self._start = (max(rank, 0), step)
        self.judged = 0
        self.guilty = set()

    def add(self, known, call, direction, what, verdict, cause=""):
        self.judged += 1
        word = "good"
        if verdict.guilty:
            word = "random" if cause == "random" else "guilty"
        if word == "guilty":
            self.guilty.add(known.name)
        self._write(known, call, direction, what, verdict.error, verdict.floor, verdict.factor, word,
                    cause)

    def not_judged(self, known, call, why, direction="forward"):
        self._write(known, call, direction, "", "", "", "", "not judged", why)

    def _write(self, known, *cells):
        self._file.write(csv_row(self._start + (known.name, known.kind) + cells))

    def close(self):
        self._file.close()
        os.rename(self._begun, self.path)
