"""Trains a small GPT with DeepSpeed's engine in two processes, optimizer, gradients or parameters shared out.

usage: zero.py STAGE [bf16] ["gradients in float32"]
"""
import glob
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "torch"))
import deepspeed  # noqa: E402
import torch  # noqa: E402
from harmless_models import Gpt, next_token_loss, tokens  # noqa: E402
from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_grad, safe_get_full_optimizer_state  # noqa: E402
from torch_training import Run  # noqa: E402

# In elements. By default a bucket holds 500 million: every call that cuts a piece from it has it as its argument, whole.
BUCKETS = {"reduce_bucket_size": 2000, "allgather_bucket_size": 2000, "stage3_prefetch_bucket_size": 2000,
           "stage3_param_persistence_threshold": 100}


class States:
    """What the optimizer within DeepSpeed's holds. At stage 3 its own state_dict() does not find the parameters of it."""

    def __init__(self, optimizer):
        self._optimizer = optimizer

    def state_dict(self):
        return list(self._optimizer.state.values())


def remove_shared_memory():
    """DeepSpeed's collectives leave 66 MiB of shared memory behind in every process."""
    place = "_%s_%s_%d" % (os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"], int(os.environ["RANK"]))
    for path in glob.glob("/dev/shm/deepspeed_*" + place):
        os.remove(path)


def main(stage, *options):
    run = Run()
    deepspeed.init_distributed("gloo")
    torch.manual_seed(11)
    model = Gpt()
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    further = {"data_types": {"grad_accum_dtype": "fp32"}} if "gradients in float32" in options else {}
    engine, optimizer, _, _ = deepspeed.initialize(
        model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-2),
        config={**further, "train_micro_batch_size_per_gpu": 2, "gradient_clipping": 1.0, "bf16": {"enabled": "bf16" in options},
                "zero_optimization": dict(BUCKETS, stage=int(stage)), "zero_allow_untested_optimizer": True})
    # At stage 3 a parameter outside of a call is empty, and this rank's part of it is an attribute.
    run.watch(engine.module, optimizer, lambda: [(name, getattr(parameter, "ds_tensor", parameter))
                                                 for name, parameter in engine.module.named_parameters()])

    def whole(get):
        return lambda: {"0:" + name: get(parameter) for name, parameter in engine.module.named_parameters()}

    def moment(parameter):
        """DeepSpeed's own look-up does not know the optimizer that it takes without ZeRO."""
        if stage != "0":
            return safe_get_full_optimizer_state(parameter, "exp_avg")
        copies = {id(low): high for groups in zip(optimizer.fp16_groups, optimizer.fp32_groups) for low, high in zip(*groups)}
        return optimizer.optimizer.state[copies[id(parameter)]]["exp_avg"]

    generator = torch.Generator().manual_seed(5 + run.rank)
    for number in run.steps():
        loss = next_token_loss(engine, tokens(generator))
        engine.backward(loss)
        run.note("grad_reduced", whole(safe_get_full_grad))
        if number:
            run.note("exp_avg", whole(moment))
        engine.step()
        run.note("param_updated", whole(safe_get_full_fp32_param if stage == "3" else lambda parameter: parameter))
        run.end_step(loss, optimizer=States(optimizer.optimizer))
    run.close()
    torch.distributed.destroy_process_group()
    remove_shared_memory()


if __name__ == "__main__":
    main(*sys.argv[1:])
