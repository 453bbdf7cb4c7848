"""Eager against compiled, module by module."""
from msprobe.pytorch.compile_accuracy_checker.precision_checker import PrecisionChecker

__all__ = ["PrecisionChecker"]
