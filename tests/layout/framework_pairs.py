#!/usr/bin/env python3
"""Real frameworks in two processes against one: compare names nothing without a fault, and the planted one with it.

    framework_pairs.py [WAY ...]      those whose framework this Python has; default: all
    framework_pairs.py --list

$MSPROBE is the program; the Python package is found through PYTHONPATH (build/python). With MSPROBE_FRAMEWORK_RESULTS=FOLDER the answers
are written there for docs/compatibility.md (tests/frameworks/results.py).
"""
import argparse
import importlib.metadata
import importlib.util
import json
import os
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(HERE), "diagnosis"))

import judging  # noqa: E402
from pairs_on_disk import Pair  # noqa: E402

# way: (module that must be there, name in frameworks.txt, subject, ways of the bench side, module with the fault)
FC2, W2 = "decoder.layers.1.mlp.linear_fc2", "layers.1.w2"
WAYS = {
    "megatron-tp": ("megatron.core", "megatron", "tensor parallel 2", "megatron", FC2),
    "megatron-tp-swiglu": ("megatron.core", "megatron", "tensor parallel 2, gated", "megatron-swiglu", FC2),
    "megatron-pp": ("megatron.core", "megatron", "pipeline parallel 2", "megatron", FC2),
    "megatron-pp-vpp": ("megatron.core", "megatron", "pipeline parallel 2, two chunks", "megatron-vpp", FC2),
    "megatron-dp": ("megatron.core", "megatron", "data parallel 2", "megatron", FC2),
    "megatron-llama-tp": ("megatron.core", "megatron", "Llama, tensor parallel 2, against Transformers with the same weights", "transformers",
                          FC2),
    "fsdp2": ("torch.distributed.fsdp", "torch", "FSDP2, 2 processes", "fsdp2", W2),
    "ddp": ("torch", "torch", "DDP, 2 processes", "ddp", W2),
    "dtensor": ("torch.distributed.tensor.parallel", "torch", "DTensor, tensor parallel 2", "dtensor", W2),
    "deepspeed-zero1": ("deepspeed", "deepspeed", "ZeRO, stage 1, 2 processes", "fsdp2", W2),
    "deepspeed-zero2": ("deepspeed", "deepspeed", "ZeRO, stage 2, 2 processes", "fsdp2", W2),
    "deepspeed-zero3": ("deepspeed", "deepspeed", "ZeRO, stage 3, 2 processes", "fsdp2", W2),
    "torchtitan-fsdp": ("torchtitan", "torchtitan", "Llama 3, FSDP2, 2 processes", "torchtitan-fsdp", "layers.1.feed_forward"),
    "torchtitan-tensor": ("torchtitan", "torchtitan", "Llama 3, tensor parallel 2", "torchtitan-tensor", "layers.1.feed_forward"),
}


def run(way, world, folder, *more):
    os.makedirs(folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = dict(os.environ, OMP_NUM_THREADS="1", MEETING_PORT=str(port))
    logs = [open(os.path.join(folder, "log%d" % rank), "wb+") for rank in range(world)]
    ranks = [subprocess.Popen([sys.executable, os.path.join(HERE, "framework_rank.py"), way, str(rank), str(world), folder, *more],
                              env=environment, stdout=logs[rank], stderr=subprocess.STDOUT) for rank in range(world)]
    failed = [number for number, rank in enumerate(ranks) if rank.wait(timeout=300)]
    if failed:
        logs[failed[0]].seek(0)
        raise RuntimeError("rank %d of %s failed:\n%s" % (failed[0], way, logs[failed[0]].read().decode("utf-8", "replace")[-2500:]))
    return [json.load(open(os.path.join(folder, "told%d.json" % rank))) for rank in range(world)]


def check(msprobe, way, scratch):
    """{what: "yes" or what was wrong}"""
    _, _, _, bench, place = WAYS[way]
    folder = os.path.join(scratch, way)
    path = os.path.join(folder, "pair.json")
    if os.path.exists(path):  # kept: only asked again
        with open(path) as file:
            told = json.load(file)
    else:
        told = {"bench_ranks": run(bench, 1, os.path.join(folder, "bench")), "clean_ranks": run(way, 2, os.path.join(folder, "clean")),
                "npu_ranks": run(way, 2, os.path.join(folder, "npu"), "fault"),
                "truth": {"places": ["forward " + place, "forward model.layers.1.mlp.down_proj"], "kinds": ["computation"], "relations": ["scale"], "factor": 1.5, "ranks": [],
                          "step": 0, "gradient_factor": None}}
        with open(path, "w") as file:
            json.dump(told, file)
    pair = Pair(folder, told)
    _, _, alarm = judging.ask(msprobe, pair, "clean", os.path.join(folder, "result_clean"))
    _, _, answer = judging.ask(msprobe, pair, "npu", os.path.join(folder, "result"))
    judged = judging.judge(told, answer)
    return {"no false alarm": "no: %s at %s (%s)" % (alarm.kind, alarm.call, alarm.row) if alarm.named else "yes",
            "fault named": "yes" if judged == "right" else "no: %s; %s at %s (%s), relation %s %s, ranks %s" % (
                judged, answer.kind, answer.call, answer.row, answer.relation, answer.factor, answer.ranks)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ways", nargs="*", metavar="WAY")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--keep", metavar="DIR", help="dumps and results stay there")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(WAYS))
        return 0
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="msprobe_layout_") as scratch:
        for way in arguments.ways or WAYS:
            module, framework, subject, bench, _ = WAYS[way]
            if importlib.util.find_spec(module.split(".")[0]) is None:
                print("%s skipped: no module %s" % (way, module))
                continue
            package = {"megatron": "megatron-core"}.get(framework, framework)
            version = importlib.metadata.version(package).split("+")[0]
            try:
                answers = check(os.environ["MSPROBE"], way, arguments.keep or scratch)
            except RuntimeError as error:
                answers = {"run": "no: " + str(error)}
            print("%s (%s %s): %s" % (way, framework, version, answers), flush=True)
            wrong += any(answer != "yes" for answer in answers.values())
            if os.environ.get("MSPROBE_FRAMEWORK_RESULTS"):
                answer = "yes" if all(value == "yes" for value in answers.values()) else "no"
                with open(os.path.join(os.environ["MSPROBE_FRAMEWORK_RESULTS"], "layout.jsonl"), "a") as file:
                    file.write(json.dumps({"framework": framework, "version": version, "check": "works", "answer": answer,
                                           "subject": subject + (": " if bench == "transformers" else " against one process: ") +
                                           "compare, and a planted fault"}) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
