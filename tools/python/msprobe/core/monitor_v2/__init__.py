"""The second monitor of the Python tool: TrainerMonitorV2."""
from msprobe.core.monitor_v2.trainer import TrainerMonitorV2

__all__ = ["TrainerMonitorV2"]
