"""Numerical bugs that frameworks shipped, rebuilt in miniature: what was wrong in structure, on the models of this folder.

Each names the public report it follows. The truth is that report's: where it was wrong, how, and on which ranks.
"""
import pairs
from plants import Truth

MODEL = dict(family="GPT", order="sbh", hidden=48, heads=12, ffn=48, layers=2, length=16, batch=4, vocabulary=36, table=36, qkv="heads",
             gated=False, bias=True, row_bias=False, positions="learned", experts=4, top=1, channels=8, optimizer="SGD",
             task="tensor", level="L0", steps=1, records_update=True, micro=1, style="parallel", seed=7)

GRADIENT = "gradient decoder.layers.0.self_attention.linear_proj.weight"


def _all_gradients(kinds, relations):
    return Truth(["gradient *"], kinds, relations)


# Settings of the run without the bug, where these differ.
WITHOUT = {"odd_vocabulary": dict(table=32)}

# name: (report, kind of plant, npu settings, bench settings, what the plant is told, truth)
BUGS = {
    "local_token_count": (
        "Megatron-LM #7452, finding 3", "tokens_counted_locally", dict(dp=4, ignored=0), dict(ignored=0), dict(place="loss"),
        Truth(["forward loss", "backward loss"], ["computation"], ["any"])),
    "scatter_over_wrong_group": (
        "Megatron-LM #7452, finding 7", "scattered_over_wrong_group", dict(tp=4, sp=True), {}, dict(place="embedding.scatter"),
        Truth(["forward embedding.scatter", "forward embedding"], ["computation"], ["wrong_part"], ranks=[2, 3])),
    "norm_gradient_not_reduced": (
        "Megatron-LM #1446", "sequence_gradient_not_reduced", dict(tp=4, sp=True), {}, dict(place="decoder.final_layernorm.weight"),
        Truth(["gradient decoder.final_layernorm.weight"], ["replica", "computation"], ["partial_sum"])),
    "odd_vocabulary": (
        "Megatron-LM #1754", "vocabulary_cut_short", dict(tp=2, vocabulary=31, table=30), dict(vocabulary=31, table=31, style="plain"), {},
        Truth(["parameter embedding.word_embeddings.weight", "forward embedding.word_embeddings"], ["parameter", "computation", "input"],
              ["missing_part"])),
    "running_sum_divided": (
        "Megatron-LM PR #3023", "running_sum_divided", dict(dp=2, micro=2), {}, {}, _all_gradients(["computation"], ["any"])),
    "accumulator_not_reduced": (
        "DeepSpeed PR #7985", "gradient_not_reduced", dict(dp=2, micro=2), {}, {},
        _all_gradients(["replica", "computation"], ["partial_sum", None])),
    "loss_scale_divided": (
        "DeepSpeed PR #7839", "divided_by_loss_scale", dict(dp=2, steps=2), dict(steps=2), {},
        Truth([], [], [None], gradient_factor=1 / 65536)),
    "average_is_a_sum": (
        "pytorch #162338", "gradient_summed", dict(dp=2), {}, {}, Truth([], [], [None], gradient_factor=2.0)),
    "labels_shifted_twice": (
        "LLaMA-Factory #10457", "labels_shifted_twice", {}, {}, {}, Truth(["forward loss"], ["input"], ["shift"])),
}


def make(root, name, records="recorded"):
    existing = pairs.load(root, name, any_version=False)
    if existing is not None:
        return existing
    report, kind, npu, bench, plant, truth = BUGS[name]
    return pairs.make_of(root, name, kind, report, dict(MODEL, **npu), dict(MODEL, **bench), plant, truth, records,
                         dict(MODEL, **dict(npu, **WITHOUT[name])) if name in WITHOUT else None)
