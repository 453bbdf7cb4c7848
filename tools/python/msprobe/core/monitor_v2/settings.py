"""The configuration of TrainerMonitorV2. A wrong number gets its default, with a warning, as in the Python tool."""
import json

from msprobe import _native
from msprobe._files import read_text
from msprobe._intercept.runtime import log

OPS = ("min", "max", "mean", "norm", "nans")
MONITORS = ("module", "weight_grad", "optimizer", "param", "cc")
_FRAMEWORKS = {"pytorch": "pytorch", "pt": "pytorch", "torch": "pytorch", "mindspore": "mindspore", "ms": "mindspore"}
_ALWAYS = 100000000


def _warn(text, *args):
    log(_native.LOG_WARNING, "TrainerMonitorV2: " + text % args)


def is_count(value, least=1, most=None):
    """An integer, which True is not."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least and (most is None or value <= most)


class Kind:
    """One kind of values that the configuration asks for; `slug` names its files."""

    def __init__(self, slug, options):
        self.slug = slug
        self.name = slug.lower()
        self.options = options
        self.ops = self._ops(options.get("ops"))

    @property
    def has_micro_steps(self):
        return self.name == "weight_grad"

    def columns(self):
        return ["vpp_stage", "step", "module_name", "scope"] + ["micro_step"] * self.has_micro_steps + self.ops

    def _ops(self, given):
        if given is None:
            return list(OPS)
        if isinstance(given, str):
            given = [given]
        found = []
        for op in given if isinstance(given, (list, tuple)) else ():
            if op in OPS:
                found += [op] if op not in found else []
            else:
                _warn("%s: no statistic is called %r; there are %s", self.slug, op, ", ".join(OPS))
        return found or list(OPS)


class Settings:
    def __init__(self, config_path, framework=None):
        config = json.loads(read_text(config_path))
        if not isinstance(config, dict):
            raise TypeError("%s holds a %s, not an object" % (config_path, type(config).__name__))
        self.framework = self._one_of(_FRAMEWORKS, "framework", framework or config.get("framework", "pytorch"))
        self._one_of({"csv": "csv"}, "format", config.get("format", "csv"))
        if config.get("async_write"):
            _warn("async_write: files are written in the step itself")
        self.output_dir = str(config.get("output_dir", "./"))
        self.ranks = self._ranks(config.get("rank", []))
        self.start_step = self._number(config, "start_step", 0, 0)
        self.step_interval = self._number(config, "step_interval", 1, 1)
        self.collect_times = self._number(config, "collect_times", _ALWAYS, 1)
        self.step_count_per_record = self._number(config, "step_count_per_record", 1, 1, 1000000)
        self.stop_step = self._number(config, "stop_step", self.start_step + self.collect_times * self.step_interval,
                                      self.start_step)
        self.patch_optimizer_step = config.get("patch_optimizer_step")
        self.monitors = self._monitors(config.get("monitors", {}))

    @staticmethod
    def _one_of(known, key, value):
        found = known.get(value.strip().lower()) if isinstance(value, str) else None
        if found is None:
            raise ValueError("TrainerMonitorV2: %s is one of %s, not %r" % (key, ", ".join(sorted(known)), value))
        return found

    @staticmethod
    def _number(config, key, default, least, most=None):
        value = config.get(key, default)
        if value is not default and not is_count(value, least, most):
            _warn("%s is an integer from %d%s on, not %r: %d is taken", key, least, " to %d" % most if most else "", value, default)
            return default
        return value

    @staticmethod
    def _ranks(given):
        ranks = [given] if isinstance(given, int) else given
        if not isinstance(ranks, list) or any(not is_count(rank, 0) for rank in ranks):
            _warn("rank is a number or a list of numbers, not %r: every rank is monitored", given)
            return []
        return ranks

    @staticmethod
    def _monitors(given):
        if not isinstance(given, dict):
            _warn("monitors is an object, not %r: nothing is monitored", given)
            return []
        found = []
        for slug, options in given.items():
            if not isinstance(options, dict):
                continue
            if slug.lower() not in MONITORS:
                _warn("no monitor is called %r; there are %s", slug, ", ".join(MONITORS))
            elif options.get("enabled", slug.lower() == "module"):
                found.append(Kind(slug, options))
        return found

    def of(self, name):
        return next((kind for kind in self.monitors if kind.name == name), None)

    def micro_steps(self, context):
        """Of weight gradients, from the first place that has a number."""
        kind = self.of("weight_grad")
        places = [kind.options] if kind is not None else []
        for place in places + [context]:
            for key in ("micro_batch_number", "grad_acc_steps"):
                if is_count(place.get(key)):
                    return place[key]
        return 1

    def is_selected(self, step, times):
        return (self.start_step <= step < self.stop_step and (step - self.start_step) % self.step_interval == 0
                and times < self.collect_times)
