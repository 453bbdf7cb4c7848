"""What belongs to no single framework."""
from msprobe.core.grad_compare import GradComparator
from msprobe.core.response_anomaly import analyze_output_anomaly
from msprobe.core.single_compare import SingleComparator
from msprobe.core.single_save import SingleSave

__all__ = ["GradComparator", "SingleComparator", "SingleSave", "analyze_output_anomaly"]
