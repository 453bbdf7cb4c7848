"""Long sums of 16-bit products that a library divides among blocks and adds up in the 16-bit type: correct, and never called wrong, however long they are."""
import csv
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    import numpy  # noqa: F401  pylint: disable=unused-import
except ImportError:
    print("PyTorch and NumPy are not installed: skipped")
    sys.exit(77)

MSPROBE = os.environ["MSPROBE"]
# From sums of which a step in 16 bits shows in every element to those that bounds of float32 hold.
LENGTHS = (8, 128, 512, 1024, 1536, 2048, 3072, 4096)
PARTS = (2, 4, 8)
plain = torch.matmul


def in_parts(a, b, parts):
    """a b, whose sums are made in float32 in each part and in the type of the tensors across them."""
    length = a.shape[-1] // parts
    total = None
    for start in range(0, a.shape[-1], length):
        part = plain(a[:, start:start + length].float(), b[start:start + length].float()).to(a.dtype)
        total = part if total is None else total + part
    return total


class SplitSums(unittest.TestCase):
    def test_are_within_their_bounds_and_a_wrong_element_of_one_is_not(self):
        torch.manual_seed(0)
        cases = [(dtype, length, parts) for dtype in (torch.bfloat16, torch.float16) for length in LENGTHS for parts in PARTS]
        parts_of = iter([parts for _, _, parts in cases])
        torch.matmul = lambda a, b: in_parts(a, b, next(parts_of))  # before capture wraps it
        from msprobe.pytorch import PrecisionDebugger
        with tempfile.TemporaryDirectory(prefix="msprobe_split_") as folder:
            config, dump = os.path.join(folder, "config.json"), os.path.join(folder, "dump")
            with open(config, "w", encoding="utf-8") as file:
                json.dump({"task": "tensor", "dump_path": dump, "level": "L1", "rank": [], "step": [], "tensor": {}}, file)
            debugger = PrecisionDebugger(config_path=config)
            for dtype, length, _ in cases:
                a, b = torch.randn(48, length).to(dtype), torch.randn(length, 48).to(dtype)
                debugger.start()
                torch.matmul(a, b)
                debugger.stop()
            debugger.step()
            rows = self.recheck(dump, folder)
            self.assertEqual(len(rows), len(cases))
            told = [(case, row["Verdict"], row["Ratio"], row["Beyond"], row["Reason"]) for case, row in zip(cases, rows)]
            self.assertEqual([row for row in told if row[1] != "within"], [])
            # Both ways of being within occur: the test would not see an excuse that is never needed.
            self.assertEqual({bool(row[4]) for row in told}, {True, False}, told)
            strict = self.recheck(dump, folder, "--accumulation", "float32")
            self.assertIn("beyond", {row["Verdict"] for row in strict})
            [file] = glob.glob(f"{dump}/step0/rank*/dump_tensor_data/Torch.matmul.{len(cases) - 1}.forward.output.0.pt")
            wrong = torch.load(file)
            wrong[3, 5] = -1.5 * wrong.abs().max()
            torch.save(wrong, file)
            row = self.recheck(dump, folder)[-1]
            self.assertEqual((row["Verdict"], row["Element"]), ("beyond", "[3, 5]"), row)

    def recheck(self, dump, folder, *flags):
        result = tempfile.mkdtemp(dir=folder)
        subprocess.run([MSPROBE, "recheck", dump, "-o", result, "-q", *flags], check=True)
        [file] = glob.glob(result + "/*.csv")
        with open(file, encoding="utf-8-sig", newline="") as lines:
            return list(csv.DictReader(lines))


if __name__ == "__main__":
    unittest.main()
