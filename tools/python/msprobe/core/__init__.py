"""What belongs to no single framework."""
from msprobe.core.response_anomaly import analyze_output_anomaly
from msprobe.core.single_compare import SingleComparator
from msprobe.core.single_save import SingleSave

__all__ = ["SingleComparator", "SingleSave", "analyze_output_anomaly"]
