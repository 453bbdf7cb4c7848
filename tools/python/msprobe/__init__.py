"""msprobe in Python: its commands as functions, and the capture of a training.

    import msprobe
    r = msprobe.compare("npu_dump", "gpu_dump")
    r.verdict, r.first, r.rows()

    from msprobe.pytorch import PrecisionDebugger

The functions call the program and need no framework: docs/python.md. Capture is done by libmsprobe_capture.so; for it this package holds
hooks and names. A training imports this package, too: nothing is loaded before it is asked for.
"""
_HOMES = {
    "msprobe._commands": ("ckpt_compare", "compare", "config_check", "grad_compare", "graph", "load", "monitor", "nan_analyze",
                          "perf_compare", "recheck", "response_anomaly", "rl_compare", "show"),
    "msprobe._results": ("InputError", "MsprobeError", "Origin", "Result", "UsageError"),
    "msprobe._arrays": ("Arrays", "Contents"),
    "msprobe._version": ("__version__",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME_OF)

TYPE_CHECKING = False
if TYPE_CHECKING:   # for checkers of types, which want each name said to be there for others
    from msprobe._arrays import (Arrays as Arrays, Contents as Contents)
    from msprobe._commands import (ckpt_compare as ckpt_compare, compare as compare, config_check as config_check,
                                   grad_compare as grad_compare, graph as graph, load as load, monitor as monitor,
                                   nan_analyze as nan_analyze, perf_compare as perf_compare, recheck as recheck,
                                   response_anomaly as response_anomaly, rl_compare as rl_compare, show as show)
    from msprobe._results import (InputError as InputError, MsprobeError as MsprobeError, Origin as Origin, Result as Result,
                                  UsageError as UsageError)
    from msprobe._version import (__version__ as __version__)


def __getattr__(name):  # type: ignore[no-untyped-def]
    home = _HOME_OF.get(name)
    if name == "weights":
        import importlib

        return importlib.import_module("msprobe.weights")
    if home is None:
        raise AttributeError("module 'msprobe' has no attribute %r" % name)
    import importlib

    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__():  # type: ignore[no-untyped-def]
    return sorted(set(globals()) | set(_HOME_OF))
