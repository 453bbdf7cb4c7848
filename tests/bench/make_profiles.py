#!/usr/bin/env python3
"""Writes a made-up trace of a GPU, as torch.profiler would: layers that launch kernels, and collectives.

usage: make_profiles.py FILE --mb MEGABYTES [--slower PERCENT] [--seed N]
"""
import argparse
import random

LAYERS = ("aten::linear", "aten::addmm", "aten::layer_norm", "aten::gelu", "aten::softmax", "aten::dropout")
KERNELS = ("sm80_xmma_gemm_f16f16", "ampere_fp16_gemm_128x64", "vectorized_elementwise_kernel", "layer_norm_kernel")
PREFIX = '{"schemaVersion": 1, "traceEvents": [\n'


EVENT = """  {
    "ph": "X", "cat": "%s", "name": "%s", "pid": %d, "tid": %d,
    "ts": %.3f, "dur": %.3f,
    "args": {
      %s
    }
  },
"""
FLOW = """  {
    "ph": "%s", "id": %d, "pid": %d, "tid": %d, "ts": %.3f,
    "cat": "ac2g", "name": "ac2g"%s
  },
"""


def events(number, start_us, factor, dice):
    """One operator with the call that launches its kernel, as text: as many bytes per event as Kineto writes."""
    name = dice.choice(LAYERS)
    length = dice.randint(5, 40) * factor
    kernel = "ncclKernel_AllReduce_RING" if number % 50 == 0 else dice.choice(KERNELS)
    stream = 30 if number % 50 == 0 else 7
    rows = dice.randint(1, 9)
    launch, device = start_us + 1, start_us + 4
    operator = ('"External id": %d,"Record function id": 0, "Sequence number": %d, "Fwd thread id": 0, "Concrete Inputs": ["", ""], '
                '"Input type": ["float", ""], "Input Strides": [[%d, 1], []], "Input Dims": [[64, %d], []], "Ev Idx": %d'
                % (number, number, rows, rows, number))
    work = ('"External id": %d, "queued": 0, "device": 0, "context": 1, "stream": %d, "correlation": %d, "registers per thread": 64, '
            '"shared memory": 16384, "blocks per SM": 1.481481, "warps per SM": 11.851852, "grid": [160, 1, 1], '
            '"block": [256, 1, 1], "est. achieved occupancy %%": 19' % (number, stream, number))
    return (EVENT % ("cpu_op", name, 1, 1, start_us, 3.5, operator) +
            EVENT % ("cuda_runtime", "cudaLaunchKernel", 1, 1, launch, 1,
                     '"External id": %d, "cbid": 211, "correlation": %d' % (number, number)) +
            EVENT % ("kernel", kernel, 0, stream, device, length, work) +
            FLOW % ("s", number, 1, 1, launch, "") + FLOW % ("f", number, 0, stream, device, ', "bp": "e"'), device + length)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--mb", type=float, required=True)
    parser.add_argument("--slower", type=float, default=0)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    dice = random.Random(options.seed)
    written, number, at = 0, 0, 1700000000000000.0
    with open(options.file, "w", encoding="ascii") as stream:
        stream.write(PREFIX)
        while written < options.mb * 1e6:
            number += 1
            text, at = events(number, at, 1 + options.slower / 100, dice)
            stream.write(text)
            written += len(text)
        stream.write('{"ph":"M","name":"process_name","pid":1}]}\n')


if __name__ == "__main__":
    main()
