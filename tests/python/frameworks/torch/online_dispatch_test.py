"""PtdbgDispatch with this PyTorch: the tests of tests/python/torch/online_dispatch_test.py, and a training of every kind of
module that its operators make of it."""
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SHIM = os.path.join(HERE, "..", "..", "torch")
sys.path[:0] = [os.path.join(HERE, ".."), SHIM]
import harness  # noqa: E402
import online_dispatch_test as shim  # noqa: E402  this file is __main__

MODULES = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(16, 8)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
        self.convolution, self.norm, self.pool = nn.Conv1d(8, 8, 3, padding=1), nn.BatchNorm1d(8), nn.AvgPool1d(2)
        self.group, self.recurrent, self.head = nn.GroupNorm(2, 8), nn.GRU(8, 8, batch_first=True), nn.Linear(8, 16)

    def forward(self, words):
        x = self.encoder(self.embedding(words))
        x = self.pool(F.silu(self.norm(self.convolution(x.transpose(1, 2)))))
        x = F.scaled_dot_product_attention(*[self.group(x).transpose(1, 2)[:, None]] * 3)[:, 0]
        return self.head(self.recurrent(x)[0])

def train(block=None):
    import contextlib
    torch.manual_seed(3)
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    seen = []
    for _ in range(2):
        words = torch.randint(0, 16, (4, 6))
        optimizer.zero_grad()
        with block or contextlib.nullcontext():
            loss = F.cross_entropy(net(words).flatten(0, 1), words[:, ::2].flatten())
        with block or contextlib.nullcontext():
            loss.backward()
        optimizer.step()
        seen += [loss.detach().clone()] + [p.grad.clone() for p in net.parameters()]
    return seen + [v.clone() for v in net.state_dict().values()] + [torch.get_rng_state()]

plain = train()
check = PtdbgDispatch(dump_path="dump")
seen = train(check)
assert len(plain) == len(seen) and all(map(torch.equal, plain, seen))
assert check.checked > 80, check.checked
assert check.passed, check.failed
wrong = PtdbgDispatch(dump_path="dump", tag="wrong")
with Wrong("silu"):
    train(wrong)
assert set(wrong.failed) == {"silu"}, wrong.failed
"""


class OnlineDispatch(harness.FrameworkCase):
    framework = "torch"
    subject = "PtdbgDispatch"

    def test_its_own_tests(self):
        with self.checking("works"):
            result = unittest.TextTestRunner(verbosity=2).run(unittest.defaultTestLoader.loadTestsFromModule(shim))
            self.assertTrue(result.wasSuccessful() and result.testsRun > 5, result)


class Modules(shim.ForkedCase):
    def test_modules_of_every_kind_are_checked_and_not_changed(self):
        self.run_code(MODULES, prologue=shim.PROLOGUE)


if __name__ == "__main__":
    unittest.main(verbosity=2)
