"""Trainers of TRL on a small Llama and random words; GRPO saves its key data for `msprobe rl_compare` where $RL_DATA says so.

usage: preferences.py dpo|grpo
"""
import os
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("WANDB_DISABLED", "true")
import only_packages  # noqa: E402, F401  TRL asks for vLLM
import datasets  # noqa: E402
import tokenizers  # noqa: E402
import transformers  # noqa: E402
import trl  # noqa: E402

from torch_training import Run  # noqa: E402

WORDS = ["[pad]", "[end]", "[unknown]"] + ["w%d" % number for number in range(29)]


class Reports(transformers.TrainerCallback):
    """Says where the steps are."""

    def __init__(self, run):
        self._run = run

    def on_train_begin(self, args, state, control, model=None, optimizer=None, **_):
        self._run.watch(model, optimizer)

    def on_step_begin(self, args, state, control, **_):
        self._run.begin_step()

    def on_optimizer_step(self, args, state, control, optimizer=None, **_):
        self._run.end_step(optimizer=optimizer)


class Grpo(trl.GRPOTrainer):
    """Saves what it generated and how it was rewarded."""

    def _generate_and_score_completions(self, inputs):
        data = super()._generate_and_score_completions(inputs)
        if os.environ.get("RL_DATA"):
            from msprobe.core import SingleSave
            SingleSave(os.environ["RL_DATA"], fmk="pytorch")
            SingleSave.save({"response": data["completion_ids"], "advantage": data["advantages"],
                             "ref_log_prob": data["ref_per_token_logps"]})
            SingleSave.step()
        return data


def tokenizer():
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: number for number, word in enumerate(WORDS)}, "[unknown]"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="[pad]", eos_token="[end]",
                                                unk_token="[unknown]", padding_side="left")


def text(first, count):
    return " ".join(WORDS[3 + (first * 7 + number * 5) % 29] for number in range(count))


def reward(completions, **_):
    return [float(len(set(completion.split()))) for completion in completions]


def main():
    kind = sys.argv[1]
    run = Run()
    transformers.set_seed(11)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=len(WORDS), hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, pad_token_id=0, eos_token_id=1))
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)  # TRL loads the reference model from where the model came from
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
        if os.environ.get("RL_FAULT"):
            model.lm_head.weight.data *= 8   # the policy chooses other words; the reference model is loaded from the folder
        common = dict(output_dir=folder, max_steps=run.count, per_device_train_batch_size=4, save_strategy="no", report_to=[],
                      use_cpu=True, bf16=False, disable_tqdm=True, logging_strategy="no", learning_rate=1e-3, seed=11)
        if kind == "dpo":
            examples = [dict(prompt=text(n, 4), chosen=" " + text(n + 1, 4), rejected=" " + text(n + 2, 4)) for n in range(16)]
            trainer = trl.DPOTrainer(model, args=trl.DPOConfig(**common), train_dataset=datasets.Dataset.from_list(examples),
                                     processing_class=tokenizer(), callbacks=[Reports(run)])
        else:
            arguments = trl.GRPOConfig(num_generations=2, max_completion_length=4, beta=0.1, **common)
            trainer = Grpo(model, reward_funcs=reward, args=arguments, processing_class=tokenizer(), callbacks=[Reports(run)],
                           train_dataset=datasets.Dataset.from_list([dict(prompt=text(n, 4)) for n in range(16)]))
        trainer.train()
    run.close()


main()
