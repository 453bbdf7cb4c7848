"""custom_op_namespaces: operators of an extension are recorded as calls of the API, and computed as ever."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from shim_case import ForkedCase  # noqa: E402

CODE = """
import pickle
library, other = torch.library.Library("mine", "DEF"), torch.library.Library("others", "DEF")
library.define("twice(Tensor x) -> Tensor")
library.define("scale(Tensor x, float by=3.0) -> Tensor")
library.define("scale.whole(Tensor x, int by, int again) -> Tensor")
library.define("fill(Tensor(a!) out, Tensor x) -> ()")
library.define("add_to(Tensor(a!) out, Tensor x) -> Tensor(a!)")
other.define("half(Tensor x) -> Tensor")
library.impl("twice", lambda x: torch.relu(x) * 2, "CompositeImplicitAutograd")
library.impl("scale", lambda x, by=3.0: x * by, "CompositeImplicitAutograd")
library.impl("scale.whole", lambda x, by, again: x * by * again, "CompositeImplicitAutograd")
library.impl("fill", lambda out, x: (out.copy_(x), None)[1], "CPU")
library.impl("add_to", lambda out, x: out.add_(x), "CPU")
other.impl("half", lambda x: x / 2, "CompositeImplicitAutograd")
packet = torch.ops.mine.twice

def compute():
    x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    y = torch.ops.mine.twice(x)
    out = torch.zeros(3)
    assert torch.ops.mine.fill(out, torch.ops.others.half(y.detach())) is None
    z = torch.ops.mine.scale(y, by=2.0) + torch.ops.mine.scale(y, 2, 2) + torch.ops.mine.twice.default(y)
    more = torch.zeros(3)
    assert torch.ops.mine.add_to(more, out) is more
    z.sum().backward()
    return [out.tolist(), more.tolist(), z.tolist(), x.grad.tolist()]

plain = compute()
model = nn.Linear(3, 3)
for step in range(2):
    debugger.start(model)
    assert compute() == plain
    assert torch.ops.mine.twice == packet and hash(torch.ops.mine.twice) == hash(packet)
    debugger.stop(); debugger.step()
assert torch.ops.mine.twice is packet or not EXPECTED_BACK
"""

ATB = """
import sys, types
npu = types.ModuleType("torch_npu")
npu.npu_rms_norm = lambda x: x * 2
npu.atb = types.SimpleNamespace(npu_ring_mla=lambda x: x + 1, not_in_the_list=lambda x: x)
sys.modules["torch_npu"] = npu
debugger.start(nn.Linear(1, 1))
npu.atb.not_in_the_list(npu.npu_rms_norm(npu.atb.npu_ring_mla(torch.ones(2))))
debugger.stop(); debugger.step()
"""


class CustomOperators(ForkedCase):
    def record(self, namespaces, level="L1", back=False, **keys):
        if namespaces is not None:
            keys["custom_op_namespaces"] = namespaces
        return self.run_code("EXPECTED_BACK = %r\n" % back + CODE, level=level, **keys)

    def named(self, dump, step=0):
        return [name for name in dump.data(step) if name.startswith(("mine.", "others."))]

    def test_operators_of_the_named_namespaces_are_calls(self):
        for keys in ({}, {"api_backward": "inputs"}):
            dump = self.record(["mine"], **keys)
            for step in range(2):
                names = self.named(dump, step)
                self.assertEqual([name for name in names if name.endswith("forward")],
                                 ["mine.twice.0.forward", "mine.fill.0.forward", "mine.scale.0.forward", "mine.scale.1.forward",
                                  "mine.add_to.0.forward"])
                self.assertIn("mine.twice.0.backward", names)
            data = dump.data()
            self.assertEqual(data["mine.twice.0.forward"]["output"][0]["Max"], 6.0)
            self.assertEqual(data["mine.scale.0.forward"]["input_kwargs"]["by"]["value"], 2.0)
            self.assertEqual([name for name in data if name.startswith("Torch.relu") and name.endswith("forward")],
                             ["Torch.relu.0.forward"], "calls inside of one belong to it, but not those of the overload")

    def test_what_an_operator_wrote_to_its_arguments_is_its_output(self):
        data = self.record(["mine"], task="tensor").data()
        self.assertEqual([leaf["Max"] for leaf in data["mine.fill.0.forward"]["input_args"]], [0.0, 3.0])
        self.assertEqual([leaf["Max"] for leaf in data["mine.fill.0.forward"]["output"]], [3.0, 3.0])
        self.assertEqual([leaf["Max"] for leaf in data["mine.add_to.0.forward"]["output"]], [3.0])

    def test_several_namespaces_modules_and_lists_go_together(self):
        dump = self.record(["others", "mine", "absent"], level="mix", section={"list": ["half"]})
        self.assertEqual(self.named(dump), ["others.half.0.forward"])
        self.assertEqual(self.named(self.record(["others"], level="L0")), [])

    def test_operators_of_atb_keep_the_name_of_their_namespace(self):
        data = self.run_code(ATB, level="L1").data(0)
        self.assertEqual([name for name in data if name.startswith("NPU.")], ["NPU.atb.npu_ring_mla.0.forward", "NPU.npu_rms_norm.0.forward"])

    def test_nothing_is_replaced_after_the_last_step_nor_where_nothing_is_named(self):
        self.assertEqual(self.named(self.record(None, back=True)), [])
        dump = self.record(["mine"], back=True, step=[0])
        self.assertEqual(len(self.named(dump)) > 4, True)


if __name__ == "__main__":
    unittest.main()
