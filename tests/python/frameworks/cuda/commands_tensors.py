"""Records tensors of every kind on the device of MSPROBE_TEST_DEVICE:   commands_tensors.py FOLDER

FOLDER/<level>_<task>_<checksum>/ gets a dump each, FOLDER/tensors.pt all tensors as they are on the host. Each capture has a process
of its own, which is forked before the device is used.
"""
import atexit
import json
import math
import os
import sys
import traceback

import torch
import torch.nn as nn

from commands_train import DEVICE, make_repeatable

CAPTURES = [(level, task, checksum) for level in ("L0", "L1", "mix")
            for task, checksum in (("statistics", "statistics"), ("statistics", "md5"), ("tensor", "md5"))] + [("mix", "statistics", "xor")]
DTYPES = ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "int64", "int32", "int16", "int8", "uint8", "bool",
          "complex64", "complex128")


def tensors(device):
    """{name: tensor}: bit for bit the same on every device, as nothing but copies and views are made there."""
    generator = torch.Generator().manual_seed(4)
    base = torch.randn(6, 10, generator=generator) * 3
    made = {}
    for name in DTYPES:
        dtype = getattr(torch, name, None)
        if dtype is None:
            continue
        values = torch.complex(base, base.flip(0)).to(dtype) if dtype.is_complex else (base > 0) if dtype is torch.bool else base.to(dtype)
        made[name] = moved = values.to(device)
        made[name + "_transposed"] = moved.t()
        made[name + "_part"] = moved[1::2, 2:7]
        made[name + "_one"] = moved[3, 4]
    long = torch.randn(300, 400, generator=generator).to(device)
    made.update(long=long, long_transposed=long.t(), long_half=long.cpu().half().to(device), cube=long.view(20, 30, 200).permute(2, 0, 1))
    made.update(expanded=long[:1].expand(7, 400), halves_expanded=made["bfloat16"][:, :1].expand(6, 33), behind=long.flatten()[77:100])
    number = made["complex64"]
    made.update(conj=number.conj(), conj_transposed=number.conj().t(), neg=number.conj().imag, real=number.real)
    made.update(empty=long[:0], empty_bool=made["bool"][:, :0], ones=torch.ones((), device=device), truth=torch.tensor(True, device=device))
    special = torch.tensor([1.0, math.nan, math.inf, -math.inf, -2.5, 0.0, -0.0])
    made.update(special=special.to(device), special_half=special.half().to(device), infinite=special[[0, 2, 4]].to(device),
                large=torch.tensor([2 ** 60 + 1, -2 ** 53 - 1, 7]).to(device), zeros=torch.zeros(9, dtype=torch.bfloat16, device=device))
    made.update(sparse=base.relu().to_sparse().to(device), csr=base.relu().to_sparse_csr().to(device))
    made["leaf"] = (base * 8).round().to(device).requires_grad_()
    return made


class Holder(nn.Module):
    def forward(self, given):
        return list(given.values())


def record(folder, level, task, checksum):
    from msprobe.pytorch import PrecisionDebugger
    make_repeatable()
    os.makedirs(folder)
    path = os.path.join(folder, "config.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"task": task, "level": level, "dump_path": os.path.join(folder, "dump"), task: {"summary_mode": checksum}}, file)
    given = tensors(DEVICE)
    model = nn.Module()
    model.holder = Holder()
    debugger = PrecisionDebugger(path)
    debugger.start(model)
    model.holder(given)
    for tensor in given.values():
        if tensor.layout is torch.strided:
            torch.unsqueeze(tensor, 0)
            torch.Tensor.reshape(tensor, tensor.shape)
    (given["leaf"] * 2).sum().backward()
    # What was recorded may be overwritten at once.
    for tensor in (given["long"], given["float64"], given["complex64"]):
        tensor.zero_()
    debugger.stop()
    debugger.step()


def freed(folder):
    """The memory of a parameter is given back while it is not needed, as by FSDP: it has no values, and the device goes on."""
    from msprobe.pytorch import PrecisionDebugger
    given = {"freed": torch.rand(300, 400, device=DEVICE), "there": torch.rand(4, device=DEVICE)}
    given["part"] = given["freed"][1:]
    given["freed"].untyped_storage().resize_(0)
    model = nn.Module()
    model.holder = Holder()
    debugger = PrecisionDebugger(task="statistics", level="L0", dump_path=os.path.join(folder, "dump"))
    debugger.start(model)
    model.holder(given)
    debugger.stop()
    debugger.step()
    assert torch.ones(3, device=DEVICE).sum().item() == 3
    with open(os.path.join(folder, "dump", "step0", "rank", "dump.json"), encoding="utf-8") as file:
        [found] = json.load(file)["data"]["Module.holder.Holder.forward.0"]["input_args"]
    assert found["freed"]["Max"] is None and found["part"]["Max"] is None, found
    assert abs(found["there"]["Max"] - given["there"].max().item()) < 1e-6, found


def forked(function, *arguments):
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        function(*arguments)
        atexit._run_exitfuncs()  # as the end of a process does
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def main():
    folder = os.path.abspath(sys.argv[1])
    os.makedirs(folder)
    torch.set_num_threads(1)
    torch.save({name: tensor.detach().resolve_conj().resolve_neg().clone() for name, tensor in tensors("cpu").items()}, os.path.join(folder, "tensors.pt"))
    children = {}
    waiting = [(record, os.path.join(folder, "_".join(capture)), *capture) for capture in CAPTURES] + [(freed, os.path.join(folder, "freed"))]
    at_once = max(2, min(6, (os.cpu_count() or 2) // 2))
    failed = []
    while waiting or children:
        while waiting and len(children) < at_once:
            work = waiting.pop(0)
            children[forked(*work)] = work[1]
        child, status = os.wait()
        if status:
            failed.append("%s: status %d" % (children[child], status))
        del children[child]
    if failed:
        sys.exit("\n".join(failed))
    print("finished", len(CAPTURES))


if __name__ == "__main__":
    main()
