"""The guide's examples with vLLM."""
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir))
import guide  # noqa: E402


class Guide(guide.GuideCase):
    framework = "vllm"
    environment = {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}

    def further_path(self, folder):
        return HERE   # its sitecustomize.py hides what does not load beside PyTorch for the CPU

    def test_examples_print_what_the_guide_shows(self):
        self.check_sections(guide.is_about("^vLLM"), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
