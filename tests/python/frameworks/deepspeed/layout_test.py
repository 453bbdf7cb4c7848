"""Stages of ZeRO share one model out in different ways: put together by layout.json, the optimizers are given the same gradients."""
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir))
import layouts  # noqa: E402


class Layouts(layouts.LayoutCase):
    framework = "deepspeed"
    environment = {"DS_ACCELERATOR": "cpu", "LOCAL_SIZE": "2", "DEEPSPEED_LOG_LEVEL": "error"}

    def test_stages_agree(self):
        with self.checking("works"):
            known = None
            for stage in (1, 2, 3):
                ranks = self.ranks(os.path.join(HERE, "zero.py"), str(stage))
                for number, rank in enumerate(ranks):
                    self.assertEqual(rank.layout["framework"], "deepspeed")
                    self.assertEqual(rank.layout["groups"], dict({"dp": [0, 1]}, **({"fsdp": [0, 1]} if stage == 3 else {})))
                    self.assertEqual((rank.layout["zero_stage"], rank.layout["batch"]), (stage, {"part": number, "parts": 2}))
                    kinds = {entry["kind"] for entry in rank.parameters.values()}
                    self.assertEqual(kinds, {"shard"} if stage == 3 else {"replicated"})
                gradients = layouts.whole_gradients(ranks)
                self.assertGreater(len(gradients), 20)
                known = known or gradients
                self.assert_agree(gradients, known, atol=1e-6)


if __name__ == "__main__":
    unittest.main(verbosity=2)
