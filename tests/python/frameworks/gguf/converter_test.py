"""GGUF files that llama.cpp's converter made of Hugging Face's models: queries and keys in another order, norms of Gemma with
one added. MSPROBE_GGUF_CONVERTER is the converter's script, convert_hf_to_gguf.py, which no package of this environment has;
it needs sentencepiece."""
import io
import os
import string
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import quantised  # noqa: E402
import numpy  # noqa: E402
from quantised import encoders, models  # noqa: E402

CONVERTER = os.environ.get("MSPROBE_GGUF_CONVERTER", "")
MODELS = {"llama": "LlamaForCausalLM", "gemma": "GemmaForCausalLM"}


@unittest.skipUnless(CONVERTER, "MSPROBE_GGUF_CONVERTER is not set")
class Converter(quantised.WriterCase):
    framework = "gguf"

    def version(self):
        import importlib.metadata
        return importlib.metadata.version("gguf")

    @staticmethod
    def tokenizer():
        import sentencepiece
        random = numpy.random.default_rng(0)
        lines = ("".join(random.choice(list(string.ascii_lowercase + "   "), 60)) for _ in range(300))
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=lines, model_writer=model, vocab_size=models.VOCAB,
                                                 minloglevel=2)
        return model.getvalue()

    def source(self, folder, kind, architecture):
        values = dict(models.base_model())
        if kind == "gemma":
            values.pop("lm_head.weight")
            for name in values:
                if name.endswith("norm.weight"):
                    values[name] = encoders.bf16((values[name] - 1).astype(numpy.float32))
        models.write_folder(folder, {name: encoders.as_bf16(value) for name, value in values.items()}, extra={
            "architectures": [architecture], "model_type": kind, "intermediate_size": models.INNER, "rms_norm_eps": 1e-6,
            "max_position_embeddings": 64, "rope_theta": 10000.0, "hidden_act": "silu"})
        with open(os.path.join(folder, "tokenizer.model"), "wb") as file:
            file.write(self.tokenizer())
        return folder

    def test_models(self):
        folder = self.folder()
        for kind, architecture in MODELS.items():
            source = self.source(os.path.join(folder, kind), kind, architecture)
            for form in ("f32", "f16", "q8_0"):
                with self.subTest(f"{kind}, {form}"), self.checking("works", f"converted by llama.cpp: {kind}, {form}"):
                    path = os.path.join(folder, f"{kind}-{form}.gguf")
                    subprocess.run([sys.executable, CONVERTER, source, "--outfile", path, "--outtype", form], check=True,
                                   capture_output=True)
                    self.assert_rounding(source, path, form)


if __name__ == "__main__":
    unittest.main()
