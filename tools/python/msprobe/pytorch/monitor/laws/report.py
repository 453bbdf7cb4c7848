"""laws.csv, one row for each broken law, and laws.json: how often each was checked, and what was not, and why."""
import fnmatch
import json
import os
import time

from msprobe import _native
from msprobe._files import csv_row

HEADER = ("step", "law", "name", "ranks", "value", "expected", "ratio", "text")
_MOST_ROWS = 16      # of one law in one step: the first name the fault, the others repeat it
_SECONDS = 5         # between two versions of laws.json


def plain_name(name):
    """As the script calls a parameter: without what frameworks put around its model."""
    parts = [part for part in name.split(".") if part not in ("_fsdp_wrapped_module", "_orig_mod", "_checkpoint_wrapped_module")]
    while len(parts) > 1 and parts[0] == "module":
        parts = parts[1:]
    return ".".join(parts)


class Report:
    """Kept by the monitor from its first step to its end."""

    def __init__(self, monitor):
        self._monitor = monitor
        self.laws = list(monitor.settings.get("laws") or ())
        self._except = [pattern.partition(":") for pattern in monitor.settings.get("laws_except") or ()]
        self._checked = {law: 0 for law in self.laws}
        self._broken = {law: 0 for law in self.laws}
        self._first = {}
        self._left_out = {}   # law: {why: how often}
        self._folder = monitor.tensorboard_dir
        self._in_step = {}
        self._written = 0.0
        self._begun = False

    def wants(self, law):
        return law in self._checked

    def excepts(self, law, name):
        for first, colon, second in self._except:
            if colon and first != law:
                continue
            if fnmatch.fnmatchcase(name, second if colon else first) or (not colon and first == law):
                return True
        return False

    def checked(self, law, count=1):
        if law in self._checked:
            self._checked[law] += int(count)

    def leave_out(self, law, why):
        if law in self._checked:
            reasons = self._left_out.setdefault(law, {})
            reasons[why] = reasons.get(why, 0) + 1

    def broken(self, step, law, name, value, expected, text, ranks=None):
        if law not in self._checked or self.excepts(law, name):
            return
        self._broken[law] += 1
        known = self._in_step.setdefault((step, law), 0)
        self._in_step[step, law] = known + 1
        if known >= _MOST_ROWS:
            return
        ranks = [self._monitor.rank] if ranks is None else ranks
        self._first.setdefault(law, {"step": step, "name": name, "ranks": list(ranks), "text": text})
        ratio = _ratio(value, expected)
        self._append(csv_row((str(step), law, name, " ".join(map(str, ranks)), _number(value), _number(expected), _number(ratio), text), "\n"))
        self._monitor.say_once(_native.LOG_WARNING, "law %s is broken: rank %s, step %d%s: %s"
                               % (law, " ".join(map(str, ranks)), step, ", " + name if name else "", text), subject=("law", law))

    def step_ends(self):
        self._in_step.clear()
        if not self._begun:
            self._append("")
        if not self._begun or time.monotonic() - self._written > _SECONDS:
            self._begun = True
            self.write()

    def write(self):
        if not self._folder:
            return
        self._written = time.monotonic()
        laws = {}
        for law in self.laws:
            laws[law] = {"checked": self._checked[law], "broken": self._broken[law]}
            if law in self._first:
                laws[law]["first"] = self._first[law]
            if law in self._left_out:
                laws[law]["not_checked"] = [{"why": why, "times": times} for why, times in sorted(self._left_out[law].items())]
        unfinished = os.path.join(self._folder, "laws.json.tmp")
        with open(unfinished, "w", encoding="utf-8") as file:
            json.dump({"rank": self._monitor.rank, "laws": laws}, file, indent=1)
        os.replace(unfinished, os.path.join(self._folder, "laws.json"))

    def _append(self, text):
        if not self._folder:
            return
        path = os.path.join(self._folder, "laws.csv")
        is_new = not os.path.exists(path)
        with open(path, "a", encoding="utf-8", newline="") as file:
            file.write((csv_row(HEADER, "\n") if is_new else "") + text)


def _number(value):
    return "" if value is None else value if isinstance(value, str) else float("%.9g" % value)


def _ratio(value, expected):
    try:
        return float(value) / float(expected) if float(expected) else None
    except (TypeError, ValueError, OverflowError):
        return None
