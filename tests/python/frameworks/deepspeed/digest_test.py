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
            self.assert_engines(of)


if __name__ == "__main__":
    unittest.main(verbosity=2)
