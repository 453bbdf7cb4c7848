"""A training whose operators are checked while it runs. In place of an accelerator with a wrong kernel, its GELU is an
approximation."""
import os

import torch
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from msprobe.pytorch.online_dispatch import PtdbgDispatch


class ApproximateGelu(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is torch.ops.aten.gelu.default:
            kwargs = {"approximate": "tanh"}
        return function(*args, **(kwargs or {}))


torch.manual_seed(1)
model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.GELU(), torch.nn.Linear(32, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
os.makedirs("checked", exist_ok=True)
check = PtdbgDispatch(dump_mode="auto", dump_path="checked")

with ApproximateGelu():
    for step in range(3):
        optimizer.zero_grad()
        with check:
            loss = functional.mse_loss(model(2 * torch.randn(16, 8)), torch.randn(16, 1))
        with check:
            loss.backward()
        optimizer.step()
print("checked", check.checked, "failed", check.failed, flush=True)
