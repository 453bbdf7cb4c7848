"""A tiny Llama trained by Transformers' Trainer on random words; contains nothing of msprobe.

usage: trainer.py [--eps EPSILON] [--callback CONFIG]
--eps: of one norm, as another kernel library might have it. --callback: with the callback of trainer_callback.py.
"""
import argparse
import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments, set_seed


class Losses(TrainerCallback):
    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" in logs:
            print("step %d: loss %.4f" % (state.global_step, float(logs["loss"])))


parser = argparse.ArgumentParser()
parser.add_argument("--eps", type=float, default=1e-6)
parser.add_argument("--callback")
options = parser.parse_args()
torch.set_num_threads(1)
set_seed(1)
model = LlamaForCausalLM(LlamaConfig(vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=2,
                                     num_attention_heads=2))
model.model.layers[1].input_layernorm.variance_epsilon = options.eps
words = [torch.randint(3, 32, (8,)) for _ in range(8)]
callbacks = [Losses()]
if options.callback:
    from trainer_callback import MsprobeCallback
    callbacks.append(MsprobeCallback(options.callback))
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(output_dir=folder, max_steps=2, per_device_train_batch_size=2, gradient_accumulation_steps=2,
                                  logging_steps=1, save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True)
    trainer = Trainer(model, arguments, train_dataset=[dict(input_ids=ids, labels=ids) for ids in words], callbacks=callbacks)
    trainer.remove_callback(next(item for item in trainer.callback_handler.callbacks if type(item).__name__ == "PrinterCallback"))
    trainer.train()
