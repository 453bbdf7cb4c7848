"""Digests of a trainer of Transformers and of vLLM's engine, whose parameters are fused: equal after each sync; mistakes of a sync are named."""
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir))
import live_digests  # noqa: E402

SCALED = "model.layers.0.mlp.down_proj.weight"
ONE, OTHER = "model.layers.0.mlp.up_proj.weight", "model.layers.1.mlp.up_proj.weight"


class Digests(live_digests.DigestCase):
    framework = "vllm"

    def test_sync(self):
        with self.checking("works", "digests of a trainer of Transformers and of the engine: equal after a sync, four mistakes named"):
            folder = self.folder()
            run = subprocess.run(
                [sys.executable, os.path.join(HERE, "digests.py"), folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=900,
                env=dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=os.pathsep.join(
                    [os.path.join(HERE, os.pardir), HERE, os.environ.get("PYTHONPATH", "")])))
            self.assertEqual(run.returncode, 0, run.stdout.decode()[-4000:])
            of = {name: os.path.join(folder, name) for name in os.listdir(folder)}
            names = self.assert_equal(of["trainer"], of["engine"])
            self.assertGreater(len(names), 15)
            self.assert_equal(of["before"], of["loaded"])
            stale = {name: "stale" for name in names if ".layers.1." in name}
            self.assert_names(of["trainer"], of["stale"], stale, "--also", of["before"])
            rows = self.assert_names(of["trainer"], of["shard"], {SCALED: ""})
            self.assertEqual(rows[SCALED]["rows"], "32-63")
            self.assert_names(of["trainer"], of["swapped"], {ONE: "swapped_with:" + OTHER, OTHER: "swapped_with:" + ONE})
            self.assert_equal(of["quantised"], of["dequantised"])
            self.assert_names(of["quantised"], of["scale"], {SCALED: "scale_missing"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
