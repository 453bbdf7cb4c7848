"""Capture of a training by Transformers' Trainer: Trainer(..., callbacks=[MsprobeCallback("config.json")])."""
from msprobe.pytorch import PrecisionDebugger
from transformers import TrainerCallback


class MsprobeCallback(TrainerCallback):
    def __init__(self, config_path):
        self._debugger = PrecisionDebugger(config_path)

    def on_step_begin(self, args, state, control, model=None, **kwargs):
        self._debugger.start(model=model)  # one step: all micro batches until the optimizer steps

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        self._debugger.stop()              # gradients are complete; the optimizer is not recorded

    def on_step_end(self, args, state, control, **kwargs):
        self._debugger.step()
