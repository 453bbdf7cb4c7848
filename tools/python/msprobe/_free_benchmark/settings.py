"""The configuration of the task free_benchmark, as the engine has read and checked it."""
import json
import math
import os

from msprobe import _native


def task_of(config_path, overrides):
    """The task of a configuration, or None where that cannot be read: others will say why."""
    if overrides and overrides.get("task"):
        return overrides["task"]
    try:
        return _native.configured_task(os.fsencode(config_path)) if config_path else None
    except (RuntimeError, TypeError, ValueError):
        return None


class Settings:
    """Raises ValueError with file, line, key and what it may hold."""

    def __init__(self, config_path, overrides, framework):
        values = json.loads(_native.free_benchmark_settings(
            os.fsencode(config_path) if config_path else "",
            json.dumps(overrides) if overrides else "", framework))
        self.dump_path = values["dump_path"]
        self.ranks = frozenset(values["rank"])
        self.steps = frozenset(values["step"])
        self.scope = frozenset(values["scope"])
        self.list = values["list"]
        self.mode = values["pert_mode"]
        self.handler = values["handler_type"]
        self.stage = values["fuzz_stage"]
        self.preheats = values["if_preheat"]
        self.preheat_step = values["preheat_step"]
        self.max_sample = values["max_sample"]
        self.noise_ulps = values["noise_ulps"]
        self.every_n_calls = values["every_n_calls"]
        self.max_calls_per_api = values["max_calls_per_api"]
        self.all_inputs = values["all_inputs"]
        self.compat = values["compat"]

    def selects(self, name):
        """`name`: with its direction, "Functional.linear.0.forward"."""
        if self.scope:
            return name in self.scope
        return not self.list or any(part in name for part in self.list)

    def has_step(self, step):
        return not self.steps or step in self.steps

    def has_rank(self, rank):
        """One that is not known is not a reason to leave a process out."""
        return rank < 0 or not self.ranks or rank in self.ranks

    @property
    def last_step(self):
        return max(self.steps, default=math.inf)
