"""Every recorded case again, through the shim, with this PyTorch.

Case by case: names, their order, nesting, dtypes, shapes and flags exactly; statistics within
rounding; parents exactly; stacks by name and by the frames of the script. MSPROBE_GOLDEN (default:
../shared/golden beside the checkout) gives all cases; without it those under tests/data are run.
"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

import golden_cases

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(golden_cases.HERE)))
GOLDEN = os.environ.get("MSPROBE_GOLDEN", os.path.join(os.path.dirname(REPOSITORY), "shared",
                                                       "golden"))
IS_TORCH_2 = int(torch.__version__.split(".")[0]) >= 2
# What the optimizer calls differs between the versions that recorded the two sets, and so do sums
# in bfloat16.
OPTIMIZER_CASES = ("gpt_statistics_mix", "cnn_tensor_mix", "dist_statistics_mix")
SCRIPTS = {"train": "train.py", "arguments": "argtypes.py", "distributed": "dist.py"}


def folder_of(case):
    """The recorded case for this PyTorch, or None."""
    places = [os.path.join(GOLDEN, "dump", case), os.path.join(REPOSITORY, "tests/data/dump", case)]
    if IS_TORCH_2:
        if case.replace("_perturbed", "") in OPTIMIZER_CASES or "bf16" in case:
            places = []
        places.insert(0, os.path.join(GOLDEN, "dump_torch2", case))
    return next((place for place in places if os.path.isdir(os.path.join(place, "dump"))), None)


def script_of(case):
    """The recorded driver itself where it is at hand: then stacks can be compared by line."""
    recorded = os.path.join(GOLDEN, "dump", "scripts", SCRIPTS[case.script])
    if os.path.exists(recorded) and case.script != "distributed":  # its port is fixed
        return recorded, True
    return os.path.join(golden_cases.HERE, case.script + "_script.py"), False


CONFIGURATIONS = os.path.join(golden_cases.HERE, "golden_configurations.json")


class Golden(unittest.TestCase):
    def run_case(self, case):
        recorded = folder_of(case.name)
        if recorded is None:
            self.skipTest("%s was not recorded with this PyTorch (%s), or MSPROBE_GOLDEN leads to no recordings"
                          % (case.name, torch.__version__))
        folder = tempfile.mkdtemp(prefix="msprobe_golden_")
        self.addCleanup(shutil.rmtree, folder, True)
        configuration = golden_cases.load(CONFIGURATIONS)[case.name.replace("_perturbed", "")]
        with open(os.path.join(folder, "config.json"), "w") as file:
            file.write(golden_cases.json.dumps(configuration))
        script, is_recorded_script = script_of(case)
        run = subprocess.run([sys.executable, script, "--config", "config.json"] + case.arguments,
                             cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             timeout=300)
        self.assertEqual(run.returncode, 0, run.stdout.decode("utf-8", "replace")[-3000:])
        self.compare(case, os.path.join(recorded, "dump"), os.path.join(folder, "dump"),
                     is_recorded_script)

    def compare(self, case, recorded, ours, own_scripts):
        steps = sorted(os.path.relpath(path, recorded)
                       for path in glob.glob(os.path.join(recorded, "step*", "rank*")))
        own_steps = sorted(os.path.relpath(path, ours)
                           for path in glob.glob(os.path.join(ours, "step*", "rank*")))
        # The copies beside these tests may hold the first steps only.
        if not recorded.startswith(GOLDEN):
            own_steps = own_steps[:len(steps)]
        self.assertEqual(steps, own_steps)
        comparison = golden_cases.Comparison(case.name, same_build=not IS_TORCH_2)
        for step in steps:
            item, other = os.path.join(recorded, step), os.path.join(ours, step)
            for name, compare in (("dump.json", comparison.dumps),
                                  ("debug.json", comparison.dumps),
                                  ("construct.json", comparison.constructs)):
                path = os.path.join(item, name)
                if os.path.exists(path):
                    compare(golden_cases.load(path),
                            golden_cases.load(os.path.join(other, name)))
                else:
                    self.assertFalse(os.path.exists(os.path.join(other, name)), name)
            if os.path.exists(os.path.join(item, "stack.json")):
                comparison.stacks(golden_cases.load(os.path.join(item, "stack.json")),
                                  golden_cases.load(os.path.join(other, "stack.json")),
                                  own_scripts and not IS_TORCH_2)
            self.compare_files(item, other, case.name)
        if comparison.found:
            self.fail("%d differences\n%s" % (len(comparison.found),
                                              "\n".join(comparison.found[:40])))

    def compare_files(self, item, other, case):
        names = {name for name in os.listdir(os.path.join(item, "dump_tensor_data"))
                 if not golden_cases.is_absent(case, ".".join(name.split(".")[:4]))} \
            if os.path.isdir(os.path.join(item, "dump_tensor_data")) else set()
        folder = os.path.join(other, "dump_tensor_data")
        own_names = set(os.listdir(folder)) if os.path.isdir(folder) else set()
        more = {name for name in own_names - names
                if golden_cases.is_meant(case, ".".join(name.split(".")[:4]), "output")}
        if names:  # copies under tests/data have no files
            self.assertEqual(sorted(names - own_names)[:5], [], "files that are missing")
            self.assertEqual(sorted(own_names - more - names)[:5], [], "files that are more")
        for name in sorted(own_names):
            self.assertIsInstance(torch.load(os.path.join(folder, name)), torch.Tensor, name)


def _add_tests():
    for case in golden_cases.CASES:
        def test(self, case=case):
            self.run_case(case)
        setattr(Golden, "test_" + case.name, test)


_add_tests()

if __name__ == "__main__":
    unittest.main(verbosity=2)
