"""What a training depends on, recorded into one zip beside it, for `msprobe config_check -c`.

    from msprobe.core.config_check import ConfigChecker
"""
from msprobe.core.config_check.checker import ConfigChecker

__all__ = ["ConfigChecker"]
