"""Modes of the training that see every function of the framework see the training's calls, and none of the capture's."""
import json
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
try:
    from torch.overrides import TorchFunctionMode  # noqa: F401
except ImportError:
    print("this PyTorch has no TorchFunctionMode: skipped")
    sys.exit(77)
from shim_case import ForkedCase  # noqa: E402

CODE = """
import json
from torch.overrides import TorchFunctionMode

class Seen(TorchFunctionMode):
    def __init__(self, name):
        super().__init__()
        self.names = []
    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.append(getattr(function, "__name__", str(function)))
        return function(*args, **(kwargs or {}))

class Half(nn.Module):
    def forward(self, x, scale=None):
        y = x.clone()
        return y.mul_(0.5), {"same": x}

torch.manual_seed(3)
model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.LayerNorm(4), nn.Dropout())
half = Half()
optimizer = torch.optim.Adam(model.parameters())
outer, inner = Seen("outer"), Seen("inner")
for step in range(2):
    with outer:
        if CAPTURES: debugger.start(nn.ModuleList([model, half]))
        with inner:
            out = model(torch.ones(3, 4))
            y, more = half(out)
            loss = (F.gelu(y) + more["same"].reshape(3, 4)).sum()
            loss.backward()
        assert len(torch.overrides._get_current_function_mode_stack()) == 1
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step(); optimizer.zero_grad()
        if CAPTURES: debugger.stop(); debugger.step()
try:
    with inner:
        if CAPTURES: debugger.start(model)
        torch.matmul(torch.ones(2), torch.ones(3))
except RuntimeError as error:
    assert len(torch.overrides._get_current_function_mode_stack()) == 0
if CAPTURES: debugger.stop(); debugger.step()
with open("seen.json", "w") as file:
    json.dump([outer.names, inner.names, [p.tolist() for p in model.parameters()]], file)
"""


class Modes(ForkedCase):
    def seen(self, captures, **keys):
        dump = self.run_code("CAPTURES = %r\n" % captures + CODE, **keys)
        with open(os.path.join(dump.folder, "seen.json")) as file:
            return dump, json.load(file)

    def test_see_no_more_than_without_a_capture(self):
        expected = self.seen(False)[1]
        self.assertGreater(len(expected[1]), 20)
        for keys in ({"level": "L0"}, {"level": "L1"}, {"level": "mix"}, {"level": "mix", "task": "tensor"},
                     {"level": "L1", "section": {"summary_mode": "md5"}}, {"level": "mix", "api_backward": "inputs"}):
            dump, seen = self.seen(True, **keys)
            self.assertGreater(len(dump.names()), 5)
            self.assertEqual(seen, expected, keys)
            self.assertEqual(dump.errors(), "", keys)


if __name__ == "__main__":
    unittest.main()
