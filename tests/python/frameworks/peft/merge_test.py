"""Adapters that peft wrote and merged: BASE+ADAPTER is the merged model."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import quantised  # noqa: E402
import peft  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from quantised import models  # noqa: E402

KINDS = {"LoRA merged": {}, "rsLoRA merged": {"use_rslora": True}, "DoRA merged": {"use_dora": True},
         "LoRA merged, ranks by pattern": {"rank_pattern": {"q_proj": 4}, "alpha_pattern": {"q_proj": 32}}}


class Merge(quantised.WriterCase):
    framework = "peft"

    def merged(self, folder, values, **options):
        torch.manual_seed(0)
        config = transformers.LlamaConfig(
            hidden_size=models.HIDDEN, intermediate_size=models.INNER, num_hidden_layers=models.LAYERS,
            num_attention_heads=models.HEADS, num_key_value_heads=models.KV_HEADS, vocab_size=models.VOCAB,
            tie_word_embeddings=False)
        model = transformers.LlamaForCausalLM(config).to(torch.bfloat16)
        model.load_state_dict(self.tensors(values), strict=False)
        model = peft.get_peft_model(model, peft.LoraConfig(
            r=8, lora_alpha=16, target_modules=["q_proj", "v_proj", "down_proj"], init_lora_weights=False, **options))
        model = model.to(torch.bfloat16)
        model.save_pretrained(os.path.join(folder, "adapter"))
        model.merge_and_unload().save_pretrained(os.path.join(folder, "merged"))

    def test_every_kind(self):
        for subject, options in KINDS.items():
            with self.subTest(subject), self.checking("works", subject):
                folder = self.folder()
                base, values = self.base(folder)
                self.merged(folder, values, **options)
                self.assert_rounding(base + "+" + os.path.join(folder, "adapter"), os.path.join(folder, "merged"),
                                     "bf16")


if __name__ == "__main__":
    unittest.main()
