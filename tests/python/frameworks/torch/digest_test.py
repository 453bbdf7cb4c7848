"""Digests of ranks that PyTorch itself shares a model out to are those of the engine that got the weights; mistakes of a sync are named."""
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir))
import live_digests  # noqa: E402


class Digests(live_digests.DigestCase):
    framework = "torch"

    def check(self, way, words):
        with self.checking("works", "digests of ranks, %s, and of an engine: equal, and five mistakes named" % words):
            folder = self.folder()
            self.ranks(os.path.join(HERE, "digests.py"), way, folder)
            self.assert_engines({name: os.path.join(folder, name) for name in os.listdir(folder)})

    def test_fsdp2(self):
        self.check("fsdp2", "FSDP2")

    def test_tensor_parallel(self):
        self.check("tensor_parallel", "DTensor tensor parallel")

    def test_data_parallel(self):
        self.check("data_parallel", "DDP")


if __name__ == "__main__":
    unittest.main(verbosity=2)
