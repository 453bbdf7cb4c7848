#!/usr/bin/env python3
"""Wrong code of released versions of inductor that users reported: does compile_check name the kernel and the line?

    reported.py        # needs PyTorch 2.6 or 2.13; says for this version what is wrong in it and what was named

Kernels are compiled for the CPU by inductor's C++ backend. The functions are ours; what goes wrong is what the reports say.

| pytorch/pytorch | what | here |
|---|---|---|
| issues 143555, 143566 | shifts by as many bits as the type has, or more, are not those of eager | 2.6 |
| issue 191499 | least and largest element of 8-bit integers, 16 of them or more: starts from 0 | 2.13 |
"""
import csv
import os
import sys
import tempfile

import torch

from msprobe.pytorch import compile_check


def shifted(x, y):
    return torch.bitwise_left_shift(x, y)


def least(x):
    return (x + 1).amin()


def largest(x):
    return x.amax(), x.argmax()


CASES = [(shifted, [torch.arange(1, 41), torch.arange(40, 80)]), (least, [torch.arange(3, 67).to(torch.int8)]),
         (largest, [-torch.arange(3, 67).to(torch.int8)])]


def _tuple(result):
    return result if isinstance(result, tuple) else (result,)


def main():
    missed = 0
    for function, arguments in CASES:
        with tempfile.TemporaryDirectory() as folder:
            torch._dynamo.reset()
            compile_check.start(folder)
            compiled = torch.compile(function)(*arguments)
            compile_check.stop()
            with open(os.path.join(folder, "compile_check.csv"), newline="") as file:
                rows = [row for row in csv.DictReader(file) if row["verdict"] == "wrong"]
        differs = not all(torch.equal(one, other) for one, other in zip(_tuple(compiled), _tuple(function(*arguments))))
        named = "; ".join("%(kernel)s, %(code)s: error %(error)s, bound %(bound)s" % row for row in rows) or "nothing"
        print("%s %-8s %s from eager; named: %s" % (torch.__version__, function.__name__, "differs" if differs else "does not differ", named))
        missed += differs != bool(rows)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
