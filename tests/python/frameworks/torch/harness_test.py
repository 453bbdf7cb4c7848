"""The checks themselves: a training that something is done to does not pass."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import harness  # noqa: E402


class Harness(harness.TrainingCase):
    framework = "torch"
    script = "misbehave.py"
    quick = True

    def write_result(self, *_):
        """Nothing of this belongs to the table."""

    def found(self, defect, check, *arguments, **options):
        self.arguments = (defect,)
        with self.assertRaises(AssertionError) as caught:
            getattr(self, "check_" + check)(*arguments, **options)
        return str(caught.exception)

    def test_that_changes_are_found(self):
        self.found("weight", "harmless", ["dump:L0:statistics"])
        self.found("random", "harmless", ["dump:L0:statistics"])

    def test_that_growth_is_found(self):
        for defect in ("memory", "descriptor", "thread"):
            self.found(defect, "leak_free", "dump:L0:statistics")

    def test_that_what_is_left_is_found(self):
        self.assertIn("_forward_hooks", self.found("hook", "leaves_nothing", ["dump:L0:statistics"]))
        self.assertIn("functional.linear", self.found("function", "leaves_nothing", ["dump:L0:statistics"]))

    def test_that_wrong_numbers_and_missing_ones_are_found(self):
        self.arguments = ("none",)
        self.check_true()
        right = harness.tensors_of
        try:
            harness.tensors_of = lambda data: ((name, dict(tensor, Mean=tensor["Mean"] * 1.001 if tensor.get("Mean") else None))
                                               for name, tensor in right(data))
            self.assertIn("float64 says", self.found("none", "true"))
            harness.tensors_of = lambda data: ((name, tensor) for name, tensor in right(data) if ".2." not in name)
            self.assertIn("Module.2.Linear.forward.0.output.0", self.found("none", "true"))
        finally:
            harness.tensors_of = right

    def test_that_a_fault_elsewhere_is_found(self):
        self.fault = "2"
        self.found("none", "fault_named", name="0")
        self.check_fault_named()


if __name__ == "__main__":
    unittest.main(verbosity=2)
