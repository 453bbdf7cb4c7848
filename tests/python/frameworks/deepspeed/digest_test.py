"""Digests of ZeRO 3's ranks, each of the part that it holds, are those of the engine that got the weights; mistakes of a sync are named."""
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir))
import live_digests  # noqa: E402


class Digests(live_digests.DigestCase):
    framework = "deepspeed"
    environment = {"DS_ACCELERATOR": "cpu", "LOCAL_SIZE": "2", "DEEPSPEED_LOG_LEVEL": "error"}

    def test_zero_3(self):
        with self.checking("works", "digests of ranks, ZeRO 3, and of an engine: equal, and five mistakes named"):
            folder = self.folder()
            self.ranks(os.path.join(HERE, "digests.py"), folder)
            of = {name: os.path.join(folder, name) for name in os.listdir(folder)}
            names = self.assert_equal(of["engine"], of["trainer"])
            self.assertGreater(len(names), 20)
            stale = {name: "stale" for name in names if name.startswith("blocks.1.")}
            self.assert_names(of["stale"], of["trainer"], stale, "--also", of["before"])
            found = self.compare(of["shard"], of["trainer"])
            (row,) = [row for row in found["parameters"] if row["outcome"] != "identical"]
            name, other = "blocks.0.attn.c_attn.weight", "blocks.1.attn.c_attn.weight"
            self.assertEqual((row["name"], row["rows"]), (name, "24-47"))
            self.assert_names(of["swapped"], of["trainer"], {name: "swapped_with:" + other, other: "swapped_with:" + name})
            self.assert_names(of["scale"], of["trainer"], {name: ""})
            self.compare(of["engine"], of["lost"], code=3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
