"""Calls of MindSpore under free_benchmark, a step per dtype.   usage: free_benchmark.py CONFIG

The rows of the Python tool were made with it too: README.md has the command.
"""
import sys

import mindspore as ms
import numpy as np
from mindspore import Tensor, mint, ops

ms.set_device("CPU")
ms.set_context(mode=ms.PYNATIVE_MODE)

from msprobe.mindspore import PrecisionDebugger  # noqa: E402

debugger = PrecisionDebugger(sys.argv[1])
generator = np.random.default_rng(0)
for dtype in (ms.float32, ms.float16, ms.float64):
    x = Tensor(generator.standard_normal((4, 8))).astype(dtype)
    weight = Tensor(generator.standard_normal((8, 6))).astype(dtype)
    debugger.start()
    ops.softmax(x, axis=-1)
    y = ops.matmul(x, weight)
    ops.exp(x)
    ops.tan(x)
    ops.relu(x)
    ops.log(x)  # NaN, of negative numbers
    mint.nn.functional.silu(x)
    x.sum()
    x.argmax()
    x.add(x)
    ops.addmm(y, x, weight)
    ops.bmm(x.reshape(1, 4, 8), weight.reshape(1, 8, 6))
    ops.cumsum(x, 0)
    ops.var(x)
    ops.std(x)
    ops.topk(x, 2)
    mint.add(x, x)
    x * 3.0
    debugger.stop()
    debugger.step()
