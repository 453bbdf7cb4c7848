"""risk_level, xor, slice and the search for differences give what the 26.x Python tool gives: its own dumps are the expectation (MSPROBE_GOLDEN)."""
import json
import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import torch  # noqa: E402
from shim_case import ForkedCase  # noqa: E402

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
GOLDEN = os.path.join(os.environ.get("MSPROBE_GOLDEN", os.path.join(os.path.dirname(REPOSITORY), "shared", "golden")),
                      "msprobe26", "dump")
# What dumps of ours have or leave out on purpose, whatever the keys of the configuration: a flag of recomputed calls, means and norms of
# integers, gradients of modules.
ONLY_OURS = ("Torch.ones_like.",)
RENAMED = (".parameters_grad", ".backward.")


def without_flag(entry):
    return {key: value for key, value in entry.items() if key != "is_recompute"}


@unittest.skipUnless(os.path.isdir(GOLDEN), "the golden folder is not here (MSPROBE_GOLDEN)")
@unittest.skipUnless(torch.__version__.startswith("1.13"), "its dumps are of PyTorch 1.13")
class AsTheNewerPythonTool(ForkedCase):
    def check(self, case, script="model.py", folder=None, arguments=(), **keys):
        with open(os.path.join(GOLDEN, case, "config.json")) as file:
            configuration = dict(json.load(file), dump_path="./dump", **keys)
        folder = folder or self.folder()
        shutil.copy(os.path.join(GOLDEN, "scripts", script), os.path.join(folder, script))
        task = configuration.pop("task")
        section = configuration.pop(task)
        dump = self.run_code("""
            import functools, runpy, sys
            import msprobe.pytorch
            # Dropout stays, as newer versions of the Python tool have it.
            msprobe.pytorch.seed_all = functools.partial(msprobe.pytorch.seed_all, rm_dropout=False)
            sys.argv = [%r, "config.json"] + %r
            runpy.run_path(%r)
            """ % (script, list(arguments), script), prologue="", task=task, section=section, folder=folder, level=configuration.pop("level"),
            **{key: value for key, value in configuration.items() if key != "dump_path"})
        steps = sorted(os.listdir(os.path.join(GOLDEN, case, "expected")))
        self.assertEqual(dump.steps(), steps)
        for step in steps:
            with open(os.path.join(GOLDEN, case, "expected", step, "dump.json")) as file:
                expected = json.load(file)["data"]
            self.compare(expected, dump.data(int(step[4:])))
        return dump

    def compare(self, expected, actual):
        def known(names):
            return [name for name in names if not name.startswith(ONLY_OURS)
                    and not (name.startswith("Module.") and any(part in name for part in RENAMED))]

        self.assertEqual(known(actual), known(expected))
        for name in known(expected):
            self.same(without_flag(actual[name]), expected[name], name)

    def same(self, actual, expected, place):
        if isinstance(expected, dict):
            self.assertEqual(set(actual), set(expected), place)
            for key in expected:
                if not (key in ("Mean", "Norm") and expected[key] is None):
                    self.same(actual[key], expected[key], place + "." + key)
        elif isinstance(expected, list):
            self.assertEqual(len(actual), len(expected), place)
            for index, item in enumerate(expected):
                self.same(actual[index], item, "%s.%d" % (place, index))
        elif isinstance(expected, float):
            self.assertAlmostEqual(actual, expected, delta=1e-5 * max(1, abs(expected)), msg=place)
        else:
            self.assertEqual(actual, expected, place)

    def test_focus_leaves_out_the_same_calls(self):
        dump = self.check("stat_default", risk_level="FOCUS")
        self.assertEqual(dump.load("manifest.json")["risk_level"], "FOCUS")

    def test_xor_has_the_same_words(self):
        self.check("stat_xor")

    def test_the_search_for_differences_saves_the_first_call_and_ends(self):
        folder = self.folder()
        self.check("dc_base", "diff.py", folder, ["0"])
        os.rename(os.path.join(folder, "dump"), os.path.join(folder, "base"))
        dump = self.check("dc_one", "diff.py", folder, ["1"])
        with open(os.path.join(GOLDEN, "dc_one", "expected", "step0", "tensor_files.txt")) as file:
            self.assertEqual(dump.files(), sorted(file.read().split()))
        with open(os.path.join(GOLDEN, "dc_one", "expected", "step0", "stack.json")) as file:
            expected = [names for names, lines in json.load(file).values()]
        recorded = [name for names, lines in dump.load("stack.json").values() for name in names]
        self.assertLessEqual({name for names in expected for name in names}, set(recorded))
        self.assertEqual(dump.load("manifest.json")["first_difference"], "Functional.dropout.0.forward")

    def test_slices_are_the_same_parts(self):
        dump = self.check("tensor_slice")
        with open(os.path.join(GOLDEN, "tensor_slice", "expected", "step0", "tensor_files.txt")) as file:
            files = [name for name in file.read().split() if not name.startswith("Module.")]
        self.assertLessEqual(set(files), set(dump.files()))


if __name__ == "__main__":
    unittest.main()
