"""The guide's examples with DeepSpeed."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import guide  # noqa: E402


class Guide(guide.GuideCase):
    framework = "deepspeed"
    environment = {"DS_ACCELERATOR": "cpu", "LOCAL_SIZE": "2", "DEEPSPEED_LOG_LEVEL": "error"}

    def test_examples_print_what_the_guide_shows(self):
        self.check_sections(guide.is_about("^DeepSpeed"), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
