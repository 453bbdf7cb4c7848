"""msprobe inside a training script: records what a model computes.

    from msprobe.pytorch import PrecisionDebugger

The recording itself is done by libmsprobe_capture.so; this package holds hooks and names.
"""
