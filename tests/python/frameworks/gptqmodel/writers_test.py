"""Models that GPTQModel quantised on a CPU: GPTQ and AWQ. Both compensate errors or fold scales, so that weights are farther off
than rounding explains: every parameter is clean or has the cause `calibrated`, and a mistake has its own name.

Not part of an environment: the package brings a PyTorch of its own and is built from source. By hand, in a virtual environment with
`pip install torch==2.14.1 gptqmodel==7.7.0 --no-build-isolation`:
MSPROBE=build/bin/msprobe PYTHONPATH=build/python MSPROBE_FRAMEWORK_RESULTS=answers python tests/python/frameworks/gptqmodel/writers_test.py"""
import os
import sys
import unittest

os.environ["CUDA_VISIBLE_DEVICES"] = ""
# It starts more workers than a small machine has processors.
os.cpu_count = lambda: 8
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import only_packages  # noqa: E402, F401
import quantised  # noqa: E402
import gptqmodel  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from gptqmodel.quantization import FORMAT, METHOD  # noqa: E402
from quantised import encoders, models  # noqa: E402
from tokenizers import Tokenizer, models as tokenizer_models  # noqa: E402

FORMS = {"GPTQ": ({"desc_act": False}, "int4 group 128"),
         "GPTQ, act-order": ({"desc_act": True}, "int4 group 128"),
         "GPTQ, asymmetric, version 2": ({"desc_act": False, "sym": False, "format": FORMAT.GPTQ_V2}, "int4 group 128 asymmetric"),
         "AWQ": ({"method": METHOD.AWQ, "format": FORMAT.GEMM}, "int4 group 128"),
         "AWQ, asymmetric": ({"method": METHOD.AWQ, "format": FORMAT.GEMM, "sym": False}, "int4 group 128 asymmetric")}


class Writers(quantised.WriterCase):
    framework = "gptqmodel"

    def source(self, folder):
        models.write_folder(folder, {name: encoders.as_bf16(value) for name, value in models.base_model().items()}, extra={
            "architectures": ["LlamaForCausalLM"], "intermediate_size": models.INNER, "max_position_embeddings": 512,
            "rms_norm_eps": 1e-6, "hidden_act": "silu", "torch_dtype": "bfloat16", "tie_word_embeddings": False})
        words = {f"w{number}": number for number in range(models.VOCAB - 1)}
        tokenizer = Tokenizer(tokenizer_models.WordLevel({**words, "<unk>": models.VOCAB - 1}, unk_token="<unk>"))
        transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", pad_token="<unk>",
                                             eos_token="<unk>").save_pretrained(folder)
        return folder

    @staticmethod
    def samples():
        torch.manual_seed(0)
        return [{"input_ids": torch.randint(0, models.VOCAB - 1, (1, 128)), "attention_mask": torch.ones(1, 128, dtype=torch.long)}
                for _ in range(32)]

    def test_every_form(self):
        folder = self.folder()
        source = self.source(os.path.join(folder, "source"))
        for title, (settings, form) in FORMS.items():
            with self.subTest(title), self.checking("works", title):
                model = gptqmodel.GPTQModel.load(source, gptqmodel.QuantizeConfig(bits=4, group_size=128, **settings))
                model.quantize(self.samples(), batch_size=1)
                child = os.path.join(folder, title)
                model.save(child)
                self.assert_calibrated(source, child, form)


if __name__ == "__main__":
    unittest.main()
