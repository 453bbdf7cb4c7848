"""The guide's examples with Transformers."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import guide  # noqa: E402


class Guide(guide.GuideCase):
    framework = "transformers"
    environment = {"TRANSFORMERS_VERBOSITY": "error"}

    def test_examples_print_what_the_guide_shows(self):
        others = guide.is_about("^Megatron", "^DeepSpeed", "^vLLM")
        self.check_sections(lambda heading: not others(heading), 3)


if __name__ == "__main__":
    unittest.main(verbosity=2)
