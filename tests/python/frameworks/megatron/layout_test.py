"""Megatron-core's ways of sharing a model out, as layout.json has them; the gradients of the distributed optimizer, put together by it."""
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir))
import layouts  # noqa: E402

SCRIPT = os.path.join(HERE, "gpt.py")
WIDTH, HALVES = 16, {"part": 1, "parts": 2}


class Layouts(layouts.LayoutCase):
    framework = "megatron"
    module = "megatron.core"

    def test_ways(self):
        with self.checking("works"):
            self.check_tensor_parallel(*self.ranks(SCRIPT, "tensor"))
            self.check_stages(*self.ranks(SCRIPT, "pipeline"))
            self.check_distributed_optimizer()

    def check_tensor_parallel(self, _, rank):
        self.assertEqual(rank.layout["framework"], "megatron-core")
        self.assertEqual({kind: rank.layout["groups"][kind] for kind in ("tp", "pp", "dp", "cp", "ep")},
                         {"tp": [0, 1], "pp": [1], "dp": [1], "cp": [1], "ep": [1]})
        layer = "module.decoder.layers.1."
        expected = {"self_attention.linear_qkv.weight": dict(HALVES, kind="shard", dim=0, group="tp", global_shape=[3 * WIDTH, WIDTH]),
                    "self_attention.linear_proj.weight": dict(HALVES, kind="shard", dim=1, group="tp", global_shape=[WIDTH, WIDTH]),
                    "mlp.linear_fc1.bias": dict(HALVES, kind="shard", dim=0, group="tp", global_shape=[2 * WIDTH]),
                    "mlp.linear_fc2.bias": {"kind": "replicated", "global_shape": [WIDTH]}}
        self.assertEqual({name: rank.parameters[layer + name] for name in expected}, expected)
        self.assertEqual(rank.parameters["module.embedding.word_embeddings.weight"]["vocabulary"], [16, 32])

    def check_stages(self, first, second):
        for stage, rank in enumerate((first, second)):
            self.assertEqual((rank.layout["groups"]["pp"], rank.layout["groups"]["tp"]), ([0, 1], [stage]))
        names = [{rank.globally(path) for path in rank.parameters} for rank in (first, second)]
        self.assertFalse(names[0] & names[1])
        layers = {int(name.split(".")[2]) for name in names[0] | names[1] if name.startswith("decoder.layers.")}
        self.assertEqual(layers, set(range(4)))
        self.assertTrue(all(name.startswith("decoder.layers.2.") or not name.startswith("decoder.layers.1.") for name in names[1]))

    def check_distributed_optimizer(self):
        shared_out = layouts.whole_gradients(self.ranks(SCRIPT, "data", "distributed_optimizer", "bf16"))
        whole = layouts.whole_gradients(self.ranks(SCRIPT, "data", "bf16"))
        self.assertGreater(len(whole), 40)
        self.assert_agree(shared_out, whole, atol=1e-5)


if __name__ == "__main__":
    unittest.main(verbosity=2)
