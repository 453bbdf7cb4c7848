"""Every operator of a training computed once more on the CPU, in higher precision: which of them is
wrong on this device.

    from msprobe.pytorch.online_dispatch import PtdbgDispatch

    with PtdbgDispatch(dump_mode="auto", dump_path="./checked"):
        output = model(inputs)

| file | what |
| --- | --- |
| dispatch | PtdbgDispatch: what is intercepted, and when it is judged |
| operators | which operators are checked |
| calls | one call: its arguments, and its result once more in higher precision |
| native_forms | calls that need no second run in PyTorch |
| results | folders, tables, dumped tensors, the summary |
"""
from msprobe.pytorch.online_dispatch.dispatch import PtdbgDispatch

__all__ = ["PtdbgDispatch"]
