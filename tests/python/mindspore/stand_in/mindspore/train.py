"""Callbacks of Model.train."""


class Callback:
    def on_train_step_begin(self, run_context):
        pass

    def on_train_step_end(self, run_context):
        pass


class RunContext:
    def __init__(self, values):
        self._values = values

    def original_args(self):
        return self._values
