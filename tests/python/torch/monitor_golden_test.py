"""The recorded trainings, run again under the shim: the same rows in the same order with the same numbers.

Where the shim differs on purpose, and nowhere else:
 * A row exists only for what was seen in its step: the Python tool repeats old numbers (csv_stale_rows).
 * What has no gradient gets none: the Python tool hands zeros to modules whose result was never used, which makes rows
   for them and changes what the optimizer does (csv_odd_io: "frozen").
 * Communication has one row per function, moment and argument (cc_2rank); norms are combined as the root of the sum of
   squares.
 * print_struct goes on with the training; stacks leave out the frames of torch/nn/modules/module.py.
"""
import csv
import json
import math
import os
import re
import sys
import unittest
from pathlib import Path

try:
    import torch
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

from monitor_case import HERE, MonitorCase

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, os.path.join(ROOT, "tests", "cli"))
from event_file import read_events  # noqa: E402

SMALL = os.path.join(ROOT, "tests", "data", "monitor_training")
GOLDEN = os.path.join(os.environ.get("MSPROBE_GOLDEN", os.path.join(os.path.dirname(ROOT), "shared", "golden")),
                      "monitor")
# The recorded numbers come from this PyTorch; others round the last digits of a training differently.
SAME_NUMBERS = torch.__version__.startswith("1.13")
ARGUMENTS = {
    "csv_all_ops": "--steps 3 --acc 2",
    "csv_default_ops": "--steps 2 --acc 1",
    "csv_id_op": "--steps 2 --acc 1",
    "csv_window": "--steps 9 --start-iter 3",
    "csv_mbs_grad": "--steps 2 --acc 3",
    "csv_forward_only": "--steps 1 --acc 1",
    "csv_backward_only": "--steps 1 --acc 1",
    "csv_odd_io": "--model odd --steps 2 --acc 1",
    "csv_stale_rows": "--model cond --opt sgd --steps 4 --acc 1",
    "csv_no_squash": "--steps 1 --acc 1",
    "print_struct": "--steps 2 --acc 1",
    "stack_info": "--steps 2 --acc 1",
    "alert_turbulence": "--steps 6 --acc 2 --spike 3",
    "alert_nan": "--model nan --steps 3 --acc 1",
    "tensorboard": "--steps 2 --acc 1",
}


def read(*parts):
    with open(os.path.join(*parts), encoding="utf-8", newline="") as file:
        return file.read()


class Recorded(MonitorCase):
    maxDiff = 4000

    def case_folder(self, case):
        for folder in (os.path.join(SMALL, case), os.path.join(GOLDEN, case)):
            if os.path.isdir(folder):
                return folder
        self.skipTest("the recorded case %s is not here: MSPROBE_GOLDEN leads to none" % case)

    def run_case(self, case, **changes):
        configuration = json.loads(read(self.case_folder(case), "config.json"))
        configuration.update(changes)
        script = os.path.join(SMALL, "train.py")
        written = self.run_script(configuration, [sys.executable, script, "config.json"] + ARGUMENTS[case].split())
        self.assertNotIn("reported once", written.said)
        return written

    def expected(self, case):
        folder = self.case_folder(case)
        small = os.path.join(folder, "expected")
        if not os.path.isdir(small):
            (name,) = [name for name in os.listdir(os.path.join(folder, "output")) if "-rank0-" in name]
            small = os.path.join(folder, "output", name)
        return {name: read(small, name) for name in sorted(os.listdir(small)) if name.endswith(".csv")}

    def assert_same_tables(self, expected, tables):
        self.assertEqual(sorted(tables), sorted(expected))
        for name, text in expected.items():
            if SAME_NUMBERS:
                self.assertEqual(tables[name].splitlines(), text.splitlines(), name)
            else:
                self.assert_close_rows(text, tables[name], name)

    def assert_close_rows(self, expected, text, name):
        rows, own = [list(csv.reader(table.splitlines())) for table in (expected, text)]
        self.assertEqual(len(own), len(rows), name)
        for row, other in zip(rows, own):
            self.assertEqual(len(other), len(row), name)
            self.assertEqual(other[:3], row[:3], name)
            # A training that rounds differently goes its own way: Adam makes steps of full length out of gradients that
            # are rounding errors (the bias of keys). Only what comes before the first one is compared.
            begins = "_0-" in name and not name.startswith("param_updated")
            for cell, mine in zip(row, other) if begins else ():
                self.assertTrue(close(cell, mine), "%s: %s is not %s" % (name, other, row))

    def without(self, expected, *names):
        """The tables without the rows of these names."""
        kept = {}
        for name, text in expected.items():
            lines = text.splitlines(True)
            lines = [line for line in lines if not any(line.split(",")[1] == cut for cut in names)]
            kept[name] = "".join(lines)
        return kept

    # ---- tables ----

    def test_all_statistics_of_all_collectors(self):
        # Booleans print as True and False only so.
        written = self.run_case("csv_all_ops", compat=True)
        self.assert_same_tables(self.expected("csv_all_ops"), written.tables())

    def test_the_norm_alone(self):
        self.assert_same_tables(self.expected("csv_default_ops"), self.run_case("csv_default_ops").tables())

    def test_identity_and_direction(self):
        self.assert_same_tables(self.expected("csv_id_op"), self.run_case("csv_id_op").tables())

    def test_a_window_of_steps(self):
        self.assert_same_tables(self.expected("csv_window"), self.run_case("csv_window").tables())

    def test_gradients_of_every_micro_step(self):
        self.assert_same_tables(self.expected("csv_mbs_grad"), self.run_case("csv_mbs_grad").tables())

    def test_forwards_alone(self):
        self.assert_same_tables(self.expected("csv_forward_only"), self.run_case("csv_forward_only").tables())

    def test_backwards_alone(self):
        self.assert_same_tables(self.expected("csv_backward_only"), self.run_case("csv_backward_only").tables())

    def test_full_names(self):
        self.assert_same_tables(self.expected("csv_no_squash"), self.run_case("csv_no_squash").tables())

    def test_odd_arguments_and_results(self):
        expected = self.without(self.expected("csv_odd_io"))
        for name in list(expected):
            if name.startswith("actv_grad"):
                expected.update(self.without({name: expected[name]}, "frozen.input", "frozen.output"))
        self.assert_same_tables(expected, self.run_case("csv_odd_io").tables())

    def test_only_what_was_seen_in_a_step(self):
        expected = self.expected("csv_stale_rows")
        for name in list(expected):
            # PyTorch 2 drops gradients between steps, 1.13 keeps zeros.
            tables = "actv_grad|grad_unreduced" if SAME_NUMBERS else "actv_grad|grad_unreduced|grad_reduced"
            if re.match(r"(%s)_[13]-" % tables, name):
                expected.update(self.without({name: expected[name]}, "side.input", "side.output", "side.bias",
                                             "side.weight"))
        tables = self.run_case("csv_stale_rows").tables()
        # The root has no gradient of its inputs: its rows come first either way.
        self.assert_same_tables(expected, tables)

    def test_tables_beside_alerts(self):
        for case in ("alert_turbulence", "alert_nan"):
            with self.subTest(case=case):
                self.assert_same_tables(self.expected(case), self.run_case(case, compat=True).tables())

    # ---- other formats, alerts ----

    def test_tensorboard_scalars(self):
        written = self.run_case("tensorboard")
        recorded = [event for event in json.loads(read(self.case_folder("tensorboard"), "decoded.json")) if "tag" in event]
        (folder,) = written.ranks()
        (name,) = [name for name in os.listdir(folder) if "tfevents" in name]
        scalars = [(step, tag, value) for tag, step, value in read_events(Path(folder, name))]
        expected = [(event.get("step", 0), event["tag"], float(event["value"])) for event in recorded]
        self.assertEqual([scalar[:2] for scalar in scalars], [scalar[:2] for scalar in expected])
        for scalar, item in zip(scalars, expected):
            if SAME_NUMBERS:
                self.assertTrue(scalar[2] == item[2] or math.isnan(scalar[2]) and math.isnan(item[2]), (scalar, item))

    def test_alerts_by_the_rules_of_the_python_tool(self):
        if not SAME_NUMBERS:
            self.skipTest("PyTorch %s computes other last digits than the recorded run, and the alerts hang on them"
                          % torch.__version__)
        for case in ("alert_nan", "alert_turbulence"):
            with self.subTest(case=case):
                folder = self.case_folder(case)
                alert = dict(json.loads(read(folder, "config.json"))["alert"], compat=True)
                written = self.run_case(case, alert=alert, compat=True)
                expected = json.loads(read(folder, "output", "anomaly_detected", "rank0", "anomaly.json"))
                found = json.loads(read(written.path("anomaly_detected", "rank0", "anomaly.json")))
                self.assertEqual({(entry["step"], entry["tag_name"]) for entry in found.values()},
                                 {(entry["step"], entry["tag_name"]) for entry in expected.values()})

    # ---- structure ----

    def test_the_structure_of_modules(self):
        written = self.run_case("print_struct")
        folder = self.case_folder("print_struct")
        path = [os.path.join(folder, *parts, "module_struct.json") for parts in ((), ("output",))]
        expected = json.loads(read(next(name for name in path if os.path.exists(name))))
        found = json.loads(read(written.path("module_struct.json")))
        self.assertEqual(found, expected)
        self.assertEqual(list(found), list(expected))
        self.assertIn("step 1 loss", written.said)

    def test_the_stack_of_modules(self):
        written = self.run_case("stack_info")
        tables = written.tables()
        found = list(csv.reader(tables["stack_info.csv"].splitlines()))
        expected = list(csv.reader(self.expected("stack_info")["stack_info.csv"].splitlines()))
        self.assertEqual([row[0] for row in stacks(tables["stack_info.csv"])],
                         [row[0] for row in stacks(self.expected("stack_info")["stack_info.csv"])])
        self.assertEqual(found[0], expected[0])
        # Frames of PyTorch lie elsewhere in every version; those of its module.py are left out.
        self.assertNotIn("nn/modules/module.py", tables["stack_info.csv"])
        own, recorded = [[[line for path, line in frames(row[1]) if path.endswith("train.py")] for row in stacks(text)]
                         for text in (tables["stack_info.csv"], self.expected("stack_info")["stack_info.csv"])]
        self.assertEqual(own, recorded)


def stacks(text):
    return list(csv.reader(text.splitlines(True)))[1:]


def frames(stack):
    return re.findall(r"File (\S+), line (\d+), in", stack)


def close(cell, mine):
    if cell == mine:
        return True
    try:
        expected, value = float(cell), float(mine)
    except ValueError:
        return False
    return math.isclose(expected, value, rel_tol=1e-3, abs_tol=2e-5)


if __name__ == "__main__":
    unittest.main(verbosity=1)
