"""The guide's examples with Megatron-core."""
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir))
import guide  # noqa: E402


class Guide(guide.GuideCase):
    framework = "megatron"
    module = "megatron.core"

    def further_path(self, folder):
        """Programs of the page make their buffers on CUDA's device, as users' do: Python makes it the CPU when it starts."""
        (folder / "on_cpu").mkdir()
        (folder / "on_cpu/sitecustomize.py").write_text("import sys\nsys.path.append(%r)\nimport megatron_on_cpu\n" % HERE)
        return str(folder / "on_cpu")

    def test_examples_print_what_the_guide_shows(self):
        self.check_sections(guide.is_about("^Megatron"), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
