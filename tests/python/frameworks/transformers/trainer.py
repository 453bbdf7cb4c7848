"""Trains a model of families.py with Transformers' Trainer.

usage: trainer.py FAMILY [accumulating] [checkpointing] [bf16]
"""
import os
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import transformers  # noqa: E402

from families import FAMILIES  # noqa: E402
from torch_training import DEVICE, Run  # noqa: E402


class Reports(transformers.TrainerCallback):
    """Says where the steps are, and what they computed."""

    def __init__(self, run):
        self._run = run
        self.trainer = None
        self._loss = None

    def on_train_begin(self, args, state, control, model=None, optimizer=None, **_):
        self._run.watch(model, optimizer)

    def on_step_begin(self, args, state, control, **_):
        self._run.begin_step()

    def on_optimizer_step(self, args, state, control, optimizer=None, **_):
        self._run.end_step(self.trainer.losses, optimizer=optimizer)
        self.trainer.losses.clear()


class Trainer(transformers.Trainer):
    """Keeps the losses of its micro batches."""

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.losses = []

    def training_step(self, *arguments, **named):
        self.losses.append(super().training_step(*arguments, **named))
        return self.losses[-1]


def main():
    family, *options = sys.argv[1:]
    run = Run(makes_on_device=False)
    transformers.set_seed(11)
    model, examples = FAMILIES[family]()
    reports = Reports(run)
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder, max_steps=run.count, per_device_train_batch_size=2, gradient_accumulation_steps=2 if "accumulating" in options else 1,
            save_strategy="no", report_to=[], use_cpu=DEVICE == "cpu", disable_tqdm=True, logging_strategy="no", learning_rate=1e-3,
            bf16="bf16" in options)
        if "checkpointing" in options:
            model.gradient_checkpointing_enable()
        reports.trainer = Trainer(model, arguments, train_dataset=examples, callbacks=[reports])
        reports.trainer.train()
    run.close()


main()
