"""Trainings in two processes, in each of PyTorch's ways of sharing a model or its data out."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from features_test import ALL, case_of  # noqa: E402

BLOCK = "blocks.1.mlp.0"
WRAPPED = "_fsdp_wrapped_module.blocks.1._fsdp_wrapped_module.mlp.0"
# (what the table says, script's arguments, the first version that has it, checks that are not asked, the module that gets a fault)
ROWS = [
    ("DDP, gradients as bucket views", "data_parallel", (1, 13), ALL, BLOCK),
    ("DDP, static graph", "data_parallel_static_graph", (1, 13), ALL, BLOCK),
    ("ZeroRedundancyOptimizer", "zero_redundancy", (1, 13), ALL, BLOCK),
    ("FSDP1", "fsdp1 original", (2, 4), ALL, WRAPPED),
    ("FSDP1, flat parameters", "fsdp1 flat", (2, 4), ALL, WRAPPED),
    ("FSDP2, fully_shard", "fsdp2", (2, 6), ALL, BLOCK),
    ("DTensor, tensor parallel", "tensor_parallel", (2, 6), ALL, BLOCK),
    ("pipeline, GPipe", "pipeline ScheduleGPipe", (2, 6), ALL, "1.0"),
    ("pipeline, 1F1B", "pipeline Schedule1F1B", (2, 6), ALL, "1.0"),
    ("pipeline, interleaved 1F1B", "pipeline ScheduleInterleaved1F1B", (2, 6), ALL, "0.0"),
]

# The module that compare names on each rank, where that is not the faulty one on all of them: the second stage is told to have
# received what differs, by a call in no module; a stage of several chunks numbers them.
NAMED = {"ScheduleGPipe": ["1.0", ""], "Schedule1F1B": ["1.0", ""], "ScheduleInterleaved1F1B": ["0.0.0", ""]}
# By the format's rule, the wrappers of FSDP1 are no modules of a dump; what they wrap is.
UNSEEN = {"FullyShardedDataParallel.": "left out by rule"}

for made in [case_of(row, script="distributed.py", processes=2, subject=row[0] + ", 2 processes", __module__=__name__,
                     named_as=NAMED.get(row[1].split()[-1], ""),
                     unseen=UNSEEN if row[1].startswith("fsdp1") else {}) for row in ROWS]:
    globals()[made.__name__] = made
del made


if __name__ == "__main__":
    unittest.main(verbosity=2)
