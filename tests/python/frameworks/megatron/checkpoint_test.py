"""Distributed checkpoints that Megatron-core writes, with the shards of its distributed optimizer, through ckpt_compare."""
import json
import os
import socket
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir))
import harness  # noqa: E402

CHANGED = "decoder.layers.1.mlp.linear_fc1.weight"
STACKED = "decoder.layers.mlp.linear_fc1.weight"   # Megatron stores equal layers as one tensor


class Checkpoints(harness.FrameworkCase):
    framework = "megatron"
    module = "megatron.core"
    quick = False

    def write(self, steps, *arguments):
        """The folder of the checkpoint, saved behind so many steps of gpt.py."""
        folder = os.path.join(self.folder(), "checkpoint")
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        run = subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_addr", "127.0.0.1",
             "--master_port", str(port), os.path.join(HERE, "gpt.py"), *arguments, "save=" + folder],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600,
            env=dict(os.environ, MSPROBE_RUN='{"steps": %d}' % steps, PYTHONWARNINGS="ignore", OMP_NUM_THREADS="1",
                     PYTHONPATH=os.pathsep.join([os.path.join(HERE, os.pardir), HERE, os.environ.get("PYTHONPATH", "")])))
        self.assertEqual(run.returncode, 0, run.stdout.decode()[-4000:])
        return folder

    def compare(self, checkpoint, reference, *flags, **options):
        """(what is printed, {parameter: metrics})"""
        out = os.path.join(self.folder(), "result.json")
        said = self.msprobe("ckpt_compare", checkpoint, reference, "-o", out, *flags, **options)
        with open(out, encoding="utf-8") as file:
            return said, json.load(file)

    def check_changed(self, *arguments):
        """One element more of a parameter, on both ranks, is found in it, and nothing else is."""
        said, metrics = self.compare(self.write(1, *arguments), self.write(1, *arguments, "changed=" + CHANGED), "--optimizer")
        self.assertIn("DIFFERENT: 1 of ", said)
        self.assertEqual([name for name, values in metrics.items() if values["l2"]], [STACKED], said)
        self.assertEqual(metrics[STACKED]["shape"], [4, 32, 16])   # all layers, each put together from its ranks
        self.assertTrue(any(name.startswith("optimizer.") and "exp_avg" in name for name in metrics), list(metrics))
        return metrics[STACKED]["l2"]

    def test_checkpoints(self):
        with self.checking("works", "distributed checkpoints, with the distributed optimizer's: ckpt_compare"):
            self.assertAlmostEqual(self.check_changed("tensor"), 2 ** 0.5)   # an element of either half
            self.assertAlmostEqual(self.check_changed("data", "distributed_optimizer", "bf16"), 1, 2)
            # Before the first step a model has the same weights however it is cut.
            said, metrics = self.compare(self.write(0, "tensor"), self.write(0, "data"))
            self.assertIn("IDENTICAL: all %d parameters" % len(metrics), said)
            self.assertGreater(len(metrics), 10)


if __name__ == "__main__":
    unittest.main(verbosity=2)
