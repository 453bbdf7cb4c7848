"""Digests of Megatron-core's ranks, whatever their parallelism, are those of the engine that got their weights; mistakes of a sync are
named."""
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir))
import live_digests  # noqa: E402

LAYER_2 = ["input_layernorm", "post_attention_layernorm", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj"]
WAYS = {"tensor": "tensor parallel", "pipeline": "pipeline parallel", "data": "data parallel", "experts": "expert parallel"}


class Digests(live_digests.DigestCase):
    framework = "megatron"
    module = "megatron.core"

    def test_every_way(self):
        for kind, title in WAYS.items():
            with self.subTest(kind), self.checking("works", "digests of ranks, %s, and of an engine: equal, and five mistakes named" % title):
                folder = self.folder()
                self.ranks(os.path.join(HERE, "digests.py"), kind, folder)
                self.check(kind, lambda name: os.path.join(folder, name))

    def check(self, kind, of):
        names = self.assert_equal(of("engine"), of("trainer"))
        self.assertGreater(len(names), 30)
        stale = {name: "stale" for name in names if ".layers.2." in name}
        self.assertGreater(len(stale), 8)
        self.assert_names(of("stale"), of("trainer"), stale, "--also", of("before"))
        shard = [name for name in names if ".layers.1." in name and name.endswith("experts.2.down_proj.weight" if kind == "experts" else
                                                                              "mlp.down_proj.weight")]
        rows = self.assert_names(of("shard"), of("trainer"), {shard[0]: ""})
        self.assertEqual(rows[shard[0]]["rows"], "16-31")
        one, other = [name for name in names if name.endswith("up_proj.weight") and (".layers.0." in name or ".layers.1." in name)] \
            if kind != "experts" else [name for name in names if ".layers.1." in name and (
                name.endswith("experts.1.gate_proj.weight") or name.endswith("experts.3.gate_proj.weight"))]
        self.assert_names(of("swapped"), of("trainer"), {one: "swapped_with:" + other, other: "swapped_with:" + one})
        scaled = [name for name in names if ".layers.3." in name and name.endswith("o_proj.weight")]
        self.assert_names(of("scale"), of("trainer"), {scaled[0]: ""})
        if kind != "data":
            said = self.msprobe("ckpt_compare", of("engine"), of("lost"), "-o", os.path.join(self.folder(), "r.json"), exit=3)
            self.assertIsNotNone(said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
