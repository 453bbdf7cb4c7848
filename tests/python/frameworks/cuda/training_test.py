"""Trainings on a GPU: what PyTorch computes there, and what only a GPU has.

Skipped without one. Continuous integration has none; what was found is in docs/compatibility.md, with the device.
"""
import importlib.util
import os
import re
import sys
import unittest

os.environ["MSPROBE_TEST_DEVICE"] = "cuda"
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import harness  # noqa: E402
import torch  # noqa: E402

if not os.path.exists("/dev/nvidiactl"):   # to ask PyTorch would forbid to fork
    print("there is no GPU: skipped")
    sys.exit(77)

ALL = {}   # every check
BLOCK = "blocks.1.mlp.0"
RECORDED = {"true": "nothing can be read while a graph is recorded", "fault named": "the same"}
COMPILED = {"true": "hooks to compare with would be compiled too", "fault named": "no module is called in what is compiled"}
OBSERVERS = ["dump:mix:tensor", "monitor dump:L0:statistics:md5", "dump:mix:statistics"]
OF_COMPILED = ["dump:mix:tensor", "monitor dump:L1:statistics"]

# (what the table says, script, its arguments, checks that are not asked and why, the module that gets a fault)
ROWS = [
    ("GPT", "../torch/train.py", "nano_gpt", ALL, BLOCK),
    ("Llama", "../torch/train.py", "llama", ALL, ""),
    ("ResNet, in place", "../torch/train.py", "resnet_in_place", ALL, ""),
    ("mixture of experts", "../torch/train.py", "mixture_of_experts", ALL, ""),
    ("batches from pinned memory", "gpu_train.py", "copied_from_pinned_memory", ALL, "first"),
    ("several streams", "gpu_train.py", "several_streams", ALL, "layers.2"),
    ("CUDA graph of whole steps", "gpu_train.py", "whole_step_as_a_graph", RECORDED, ""),
    ("make_graphed_callables", "gpu_train.py", "callables_as_graphs", RECORDED, ""),
    ("torch.compile, reduce-overhead", "gpu_train.py", "compiled_with_graphs", COMPILED, ""),
    ("torch.compile, inductor", "../torch/features.py", "compiled inductor", COMPILED, ""),
    ("torch.compile of blocks, inductor", "../torch/features.py", "compiled_blocks inductor", COMPILED, ""),
    ("fused attention, bfloat16", "gpu_train.py", "fused_attention bfloat16", ALL, "out"),
    ("fused attention, float16", "gpu_train.py", "fused_attention float16", ALL, "out"),
    ("autocast, bfloat16", "../torch/features.py", "autocast bfloat16", ALL, "blocks.1.c_proj"),
    ("autocast, float16, fused AdamW, GradScaler", "gpu_train.py", "fused_optimizer_under_a_scaler", ALL, "first"),
    ("float8_e4m3fn", "../torch/features.py", "float8 float8_e4m3fn", ALL, "blocks.1.1"),
    ("activation checkpointing, not reentrant", "../torch/features.py", "activation_checkpointing not", ALL, BLOCK),
    ("AdamW, fused", "../torch/features.py", "optimizer fused", ALL, BLOCK),
    ("function and dispatch modes", "../torch/features.py", "modes", ALL, BLOCK),
    ("inference_mode", "../torch/features.py", "inference", ALL, BLOCK),
    ("flex_attention, inductor", "../torch/features.py", "flex_attention inductor", COMPILED, ""),
    ("DDP, NCCL, one rank", "../torch/distributed.py", "data_parallel", ALL, BLOCK),
    ("FSDP2, NCCL, one rank", "../torch/distributed.py", "fsdp2", ALL, BLOCK),
]
TRAINER = "../transformers/trainer.py"
if importlib.util.find_spec("transformers") is not None:
    sys.path.insert(0, os.path.join(harness.HERE, "transformers"))
    ROWS += [
        ("Transformers' Trainer, Llama", TRAINER, "llama", ALL, "model.layers.1.input_layernorm"),
        ("Transformers' Trainer, Llama, accumulated gradients, activation checkpointing, bfloat16 autocast", TRAINER,
         "llama accumulating checkpointing bf16", ALL, "model.layers.1.mlp.down_proj"),
        ("Transformers' Trainer, ViT", TRAINER, "vit", ALL, "vit.layers.1.layernorm_before"),
        ("Transformers' Trainer, Whisper", TRAINER, "whisper", ALL, "model.encoder.layers.1.fc1"),
    ]
INFERENCE = ("inference", "flex_attention inductor")


class Gpu(harness.TrainingCase):
    framework, module = "cuda", "torch"


def case_of(subject, script, arguments, not_asked, fault):
    def test_all(self):
        self.check_everything()

    usual = OF_COMPILED if not_asked is COMPILED else OBSERVERS
    if arguments in INFERENCE:   # without an optimizer there is nothing to monitor
        usual = ["dump:mix:tensor", "dump:L0:statistics:md5"]
    if subject == "GPT":
        usual = harness.OBSERVERS
    without_fault = {} if fault or "fault named" in not_asked else {"fault named": "asked of the other rows"}
    name = "".join(word.capitalize() for word in re.split("[^a-z0-9]+", arguments))
    if script == TRAINER:
        name = "Trainer" + name
    return type(name, (Gpu,), {
        "subject": subject, "script": script, "arguments": tuple(arguments.split()), "not_asked": dict(not_asked, **without_fault),
        "fault": fault, "usual": usual, "observers": usual, "test_all": test_all, "__module__": __name__,
        "measured": "dump:mix:statistics" if arguments in INFERENCE else harness.TrainingCase.measured})


for made in [case_of(*row) for row in ROWS]:
    globals()[made.__name__] = made
del made


class Peak(Gpu):
    script = "peak.py"

    def test_statistics_take_little_memory_of_the_device(self):
        with self.checking("works", "memory of the device for statistics of 1 GiB: less than 300 MiB"):
            peaks = []
            for observer in ("", "dump:L0:statistics"):
                output = self.run_training(observer).output
                peaks.append(int(re.search(r"peak (\d+)", output).group(1)))
            self.assertLess(peaks[1] - peaks[0], 300 << 20, peaks)


if __name__ == "__main__":
    unittest.main(verbosity=2)
