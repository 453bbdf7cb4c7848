"""Generates with Transformers; every answer is a step.

usage: generate.py FAMILY dynamic|static|sampled
"""
import sys

import torch
import transformers

from families import FAMILIES
from torch_training import Run

KINDS = {"dynamic": dict(do_sample=False), "static": dict(do_sample=False, cache_implementation="static"),
         "sampled": dict(do_sample=True, top_k=8, num_return_sequences=2)}


def main():
    family, kind = sys.argv[1:]
    run = Run()
    transformers.set_seed(11)
    model, examples = FAMILIES[family]()
    model.eval()
    run.watch(model)
    for number in run.steps():
        example = examples[number % len(examples)]
        inputs = {key: torch.stack([example[key]]) for key in ("input_ids", "attention_mask", "input_features")
                  if key in example}
        answer = model.generate(**inputs, max_new_tokens=4, min_new_tokens=4, output_scores=True, return_dict_in_generate=True,
                                pad_token_id=0, **KINDS[kind])
        run.end_step(answer.sequences, answer.scores)
    run.close()


main()
