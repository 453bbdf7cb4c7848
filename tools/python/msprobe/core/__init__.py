"""What belongs to no single framework."""
from msprobe.core.single_compare import SingleComparator
from msprobe.core.single_save import SingleSave

__all__ = ["SingleComparator", "SingleSave"]
