"""PyTorch's own ways of sharing a model out: put together by layout.json, the optimizers are given the same gradients."""
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir))
import layouts  # noqa: E402
import torch  # noqa: E402

SCRIPT = os.path.join(HERE, "distributed.py")


class Layouts(layouts.LayoutCase):
    framework = "torch"

    def gradients(self, *way):
        ranks = self.ranks(SCRIPT, *way)
        return ranks, layouts.whole_gradients(ranks)

    @unittest.skipIf(int(torch.__version__.split(".")[0]) < 2, "Debian's PyTorch 1.13 has no FSDP that could be imported")
    def test_ways_agree(self):
        with self.checking("works"):
            ranks, fsdp2 = self.gradients("fsdp2")
            self.assertEqual(ranks[1].layout["groups"], {"fsdp": [0, 1], "dp": [0, 1]})
            self.assertEqual({entry["kind"] for entry in ranks[1].parameters.values()}, {"shard"})
            ranks, fsdp1 = self.gradients("fsdp1", "original")
            self.assertEqual(ranks[1].layout["groups"], {"fsdp": [0, 1], "dp": [0, 1]})
            self.assert_agree(fsdp1, fsdp2, atol=1e-6)
            self.assert_agree(self.gradients("fsdp1", "flat")[1], fsdp2, atol=1e-6)
            ranks, _ = self.gradients("tensor_parallel")
            self.assertEqual(ranks[0].layout["groups"], {"tp": [0, 1]})
            cut = ranks[0].parameters["blocks.0.mlp.2.weight"]
            self.assertEqual((cut["kind"], cut["dim"], cut["global_shape"]), ("shard", 1, [16, 64]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
