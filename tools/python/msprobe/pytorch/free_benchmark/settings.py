"""The configuration of the task free_benchmark, checked."""
import json
import math

MODES = ("add_noise", "change_value", "improve_precision", "no_change", "bit_noise", "to_cpu")
_KEYS = ("scope", "list", "fuzz_device", "pert_mode", "handler_type", "fuzz_level", "fuzz_stage",
         "if_preheat", "preheat_step", "max_sample", "noise_ulps", "every_n_calls",
         "max_calls_per_api", "compat")


def task_of(config_path, overrides):
    """The task of a configuration, or None where that cannot be read: others will say why."""
    if overrides and overrides.get("task"):
        return overrides["task"]
    try:
        with open(config_path, encoding="utf-8") as file:
            return json.load(file).get("task")
    except (OSError, TypeError, ValueError, AttributeError):
        return None


class Settings:
    """Raises ValueError with the key and what it may hold."""

    def __init__(self, config_path, overrides):
        root = {}
        if config_path:
            with open(config_path, encoding="utf-8") as file:
                root = json.load(file)
        root.update(overrides or {})
        section = root.get("free_benchmark", {})
        if not isinstance(section, dict):
            raise ValueError("free_benchmark is an object")
        for key in section:
            if key not in _KEYS:
                raise ValueError("free_benchmark has no key %s; it knows %s"
                                 % (key, ", ".join(_KEYS)))
        self.dump_path = root.get("dump_path")
        if not isinstance(self.dump_path, str) or not self.dump_path:
            raise ValueError("dump_path is the folder to write to")
        if root.get("level", "L1") != "L1":
            raise ValueError("free_benchmark works at level L1, not %r" % (root["level"],))
        self.ranks = _numbers(root.get("rank"), "rank")
        self.steps = _numbers(root.get("step"), "step")
        self.scope = _texts(section, "scope")
        self.list = _texts(section, "list")
        if self.scope and self.list:
            raise ValueError("scope and list cannot both be given")
        self.mode = _choice(section, "pert_mode", "improve_precision", MODES)
        self.device = _choice(section, "fuzz_device", "npu", ("npu", "cpu"))
        self.handler = _choice(section, "handler_type", "check", ("check", "fix"))
        _choice(section, "fuzz_level", "L1", ("L1",))
        self.stage = _choice(section, "fuzz_stage", "forward", ("forward", "backward"))
        self.preheats = _switch(section, "if_preheat")
        self.compat = _switch(section, "compat")
        self.preheat_step = _count(section, "preheat_step", 15)
        self.max_sample = _count(section, "max_sample", 15)
        self.noise_ulps = _count(section, "noise_ulps", 0)
        self.every_n_calls = _count(section, "every_n_calls", 1)
        self.max_calls_per_api = _count(section, "max_calls_per_api", 0)
        self._check_together()

    def _check_together(self):
        if (self.mode == "to_cpu") != (self.device == "cpu"):
            raise ValueError("fuzz_device is cpu for pert_mode to_cpu, and npu (the device of the "
                             "tensors) for all others")
        if self.noise_ulps and self.mode != "add_noise":
            raise ValueError("noise_ulps belongs to pert_mode add_noise")
        if self.handler == "fix" and (self.preheats or self.stage == "backward" or
                                      self.mode not in ("improve_precision", "to_cpu")):
            raise ValueError("handler_type fix needs fuzz_stage forward, pert_mode improve_precision "
                             "or to_cpu, and no if_preheat")

    def selects(self, name):
        """`name`: with its direction, "Functional.linear.0.forward"."""
        if self.scope:
            return name in self.scope
        return not self.list or any(part in name for part in self.list)


def _texts(section, key):
    value = section.get(key) or []
    value = [value] if isinstance(value, str) else value
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError("free_benchmark.%s is a list of texts, not %r" % (key, value))
    return frozenset(value) if key == "scope" else value


def _choice(section, key, default, choices):
    value = section.get(key, default)
    if value not in choices:
        raise ValueError("free_benchmark.%s is %s, not %r" % (key, " or ".join(choices), value))
    return value


def _switch(section, key):
    value = section.get(key, False)
    if not isinstance(value, bool):
        raise ValueError("free_benchmark.%s is true or false, not %r" % (key, value))
    return value


def _count(section, key, default):
    value = section.get(key, default)
    if key in section and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise ValueError("free_benchmark.%s is an integer from 1 on, not %r" % (key, value))
    return value


def _numbers(value, key):
    """A list of numbers and ranges "3-5" as intervals; empty: all."""
    intervals = []
    for item in value or []:
        first, dash, last = str(item).partition("-")
        if isinstance(item, bool) or not first.isdigit() or (dash and not last.isdigit()):
            raise ValueError("%s holds integers from 0 on and ranges such as \"3-5\", not %r"
                             % (key, item))
        intervals.append((int(first), int(last if dash else first)))
        if intervals[-1][0] > intervals[-1][1]:
            raise ValueError("%s: the range %r ends before it begins" % (key, item))
    return intervals


def holds(intervals, number):
    return not intervals or any(first <= number <= last for first, last in intervals)


def last_of(intervals):
    return max((last for _, last in intervals), default=math.inf)
