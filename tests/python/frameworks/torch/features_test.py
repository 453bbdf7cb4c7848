"""Features of PyTorch that change how a training computes, each in a training of its own."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import harness  # noqa: E402
import torch  # noqa: E402

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])
BLOCK = "blocks.1.mlp.0"
ALL = {}   # every check
COMPILED = {"true": "hooks to compare with would be compiled too", "fault named": "no module is called in what is compiled"}
EXPORTED = {"fault named": "no module is called in what is exported"}
# What sees most, and both together; MSPROBE_HARMLESS=all takes every observer.
OBSERVERS = ["dump:mix:tensor", "monitor dump:L0:statistics:md5"]

# (what the table says, script's arguments, the first version that has it, checks that are not asked and why, the module that
# gets a fault)
ROWS = [
    ("torch.compile, aot_eager", "compiled aot_eager", (2, 0), COMPILED, ""),
    ("torch.compile, inductor", "compiled inductor", (2, 0), COMPILED, ""),
    ("torch.compile of blocks, inductor", "compiled_blocks inductor", (2, 2), COMPILED, ""),
    ("torch.export", "exported", (2, 1), EXPORTED, ""),
    ("scaled_dot_product_attention", "scaled_dot_product_attention", (2, 0), ALL, "blocks.1.out"),
    ("flex_attention, eager", "flex_attention eager", (2, 6), ALL, "blocks.1.out"),
    ("flex_attention, aot_eager", "flex_attention aot_eager", (2, 6), ALL, "blocks.1.out"),
    ("nn.MultiheadAttention, fast path", "multihead_attention_fast_path", (1, 13), ALL, "0"),
    ("activation checkpointing, reentrant", "activation_checkpointing reentrant", (1, 13), ALL, BLOCK),
    ("activation checkpointing, not reentrant", "activation_checkpointing not", (1, 13), ALL, BLOCK),
    ("torch.func", "functional_gradients", (2, 0), ALL, "0"),
    ("AdamW, foreach", "optimizer foreach", (1, 13), ALL, BLOCK),
    ("AdamW, fused", "optimizer fused", (2, 4), ALL, BLOCK),
    ("SGD, foreach", "optimizer sgd", (1, 13), ALL, BLOCK),
    ("LBFGS, closure", "optimizer lbfgs", (1, 13), ALL, BLOCK),
    ("optimizer step in backward", "optimizer_in_backward", (2, 1), ALL, BLOCK),
    ("autocast, bfloat16", "autocast bfloat16", (1, 13), ALL, "blocks.1.c_proj"),
    ("autocast, float16, GradScaler", "autocast float16", (2, 6), ALL, "blocks.1.c_proj"),
    ("float8_e4m3fn", "float8 float8_e4m3fn", (2, 1), ALL, "blocks.1.1"),
    ("float8_e5m2", "float8 float8_e5m2", (2, 1), ALL, "blocks.1.1"),
    ("subclass of Tensor", "tensor_subclass", (1, 13), ALL, "0"),
    ("wrapper subclass of Tensor", "tensor_wrapper", (2, 1), ALL, "0"),
    ("function and dispatch modes", "modes", (2, 0), ALL, BLOCK),
    ("inference_mode", "inference", (1, 13), ALL, BLOCK),
    ("static inputs", "static_inputs", (1, 13), ALL, BLOCK),
    ("torch.profiler active", "profiled", (1, 13), ALL, BLOCK),
]


QUICK = ("compiled aot_eager", "modes")
# Without an optimizer there is nothing to monitor.
INFERENCE = ("flex_attention eager", "flex_attention aot_eager", "multihead_attention_fast_path", "inference")
OF_INFERENCE = ["dump:mix:tensor", "dump:L0:statistics:md5"]
# Level L0 of a model that is compiled as a whole has nothing to record.
OF_COMPILED = ["dump:mix:tensor", "monitor dump:L1:statistics"]


# The witness' own hooks turn the fast path off, so it sees modules that are not called without it.
OFF_THE_FAST_PATH = {name: "not called on the fast path" for name in (".self_attn.", ".dropout", ".norm", ".linear")}


def case_of(row, **attributes):
    """The test of a row of ROWS; attributes: those of harness.TrainingCase beyond what the row says."""
    subject, arguments, since, not_asked, fault = row

    def test_all(self):
        if VERSION < since:
            self.skipTest("PyTorch has it from %d.%d on" % since)
        self.check_everything()

    name = "".join(word.capitalize() for word in arguments.replace("_", " ").split())
    return type(name, (harness.TrainingCase,), dict(
        {"framework": "torch", "subject": subject, "arguments": tuple(arguments.split()), "fault": fault, "usual": OBSERVERS,
         "not_asked": not_asked, "test_all": test_all, "__module__": __name__}, **attributes))


def usual_of(row):
    return OF_COMPILED if row[3] is COMPILED else OF_INFERENCE if row[1] in INFERENCE else OBSERVERS


def measured_of(row):
    return "dump:mix:statistics" if row[1] in INFERENCE else harness.TrainingCase.measured


for made in [case_of(row, script="features.py", quick=row[1] in QUICK, usual=usual_of(row), measured=measured_of(row),
                     unseen=OFF_THE_FAST_PATH if row[1] == "multihead_attention_fast_path" else {},
                     observers=[observer for observer in harness.OBSERVERS if row[1] not in INFERENCE or "monitor" not in observer])
             for row in ROWS]:
    globals()[made.__name__] = made
del made


if __name__ == "__main__":
    unittest.main(verbosity=2)
