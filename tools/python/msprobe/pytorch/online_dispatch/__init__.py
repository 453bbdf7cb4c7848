"""Every operator of a training on the CPU as well, in higher precision: which of them is wrong on
this device.

    from msprobe.pytorch.online_dispatch import PtdbgDispatch

    with PtdbgDispatch(dump_mode="auto", dump_path="./checked"):
        output = model(inputs)

| file | what |
| --- | --- |
| dispatch | PtdbgDispatch: what is intercepted, and when it is judged |
| operators | which operators are checked |
| calls | one call: its arguments, copied and in higher precision |
| results | folders, tables, dumped tensors, the summary |
"""
from msprobe.pytorch.online_dispatch.dispatch import PtdbgDispatch

__all__ = ["PtdbgDispatch"]
