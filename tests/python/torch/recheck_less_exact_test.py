"""Products in arithmetic that is less exact than float32 and correct: long sums of 16-bit numbers that a library divides among blocks and adds up in the 16-bit
type, and factors of float32 that a matrix unit rounds to TF32. None may be called wrong, unless it is forbidden."""
import csv
import glob
import json
import os
import shutil
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
SPLIT = [(dtype, length, parts) for dtype in (torch.bfloat16, torch.float16) for length in LENGTHS for parts in PARTS]
plain, plain_mm = torch.matmul, torch.mm


def in_parts(a, b, parts):
    """a b, whose sums are made in float32 in each part and in the type of the tensors across them."""
    length = a.shape[-1] // parts
    total = None
    for start in range(0, a.shape[-1], length):
        part = plain(a[:, start:start + length].float(), b[start:start + length].float()).to(a.dtype)
        total = part if total is None else total + part
    return total


def in_tf32(a, b):
    """a b of factors whose last 13 bits are left out."""
    def rounded(x):
        return torch.from_numpy((x.numpy().view("uint32") & 0xFFFFE000).view("float32"))
    return plain_mm(rounded(a), rounded(b))


class LessExact(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="msprobe_less_exact_")
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.folder = cls.temporary.name
        cls.dump = os.path.join(cls.folder, "dump")
        torch.manual_seed(0)
        parts_of = iter([parts for _, _, parts in SPLIT])
        torch.matmul = lambda a, b: in_parts(a, b, next(parts_of))  # before capture wraps them
        torch.mm = in_tf32
        from msprobe.pytorch import PrecisionDebugger
        config = os.path.join(cls.folder, "config.json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"task": "tensor", "dump_path": cls.dump, "level": "L1", "rank": [], "step": [], "tensor": {}}, file)
        debugger = PrecisionDebugger(config_path=config)
        for dtype, length, _ in SPLIT:
            a, b = torch.randn(48, length).to(dtype), torch.randn(length, 48).to(dtype)
            debugger.start()
            torch.matmul(a, b)
            debugger.stop()
        cls.factors = torch.randn(40, 64), torch.randn(64, 40)
        debugger.start()
        torch.mm(*cls.factors)
        debugger.stop()
        debugger.step()

    def recheck(self, *sides, flags=()):
        result = tempfile.mkdtemp(dir=self.folder)
        subprocess.run([MSPROBE, "recheck", *sides, "-o", result, "-q", *flags], check=True)
        [file] = glob.glob(result + "/*.csv")
        with open(file, encoding="utf-8-sig", newline="") as lines:
            return list(csv.DictReader(lines))

    def copy(self, name, file, change):
        """A copy of the dump with one output changed."""
        copy = os.path.join(self.folder, name)
        shutil.copytree(self.dump, copy)
        [path] = glob.glob(f"{copy}/step0/rank*/dump_tensor_data/{file}")
        torch.save(change(torch.load(path)), path)
        return copy

    def test_split_sums_of_any_length_are_within_their_bounds(self):
        rows = self.recheck(self.dump, flags=("--calls", "matmul"))
        self.assertEqual(len(rows), len(SPLIT))
        told = [(case, row["Verdict"], row["Ratio"], row["Beyond"], row["Reason"]) for case, row in zip(SPLIT, rows)]
        self.assertEqual([row for row in told if row[1] != "within"], [])
        # Both ways of being within occur: the test would not see an excuse that is never needed.
        self.assertEqual({bool(row[4]) for row in told}, {True, False}, told)
        self.assertIn("beyond", {row["Verdict"] for row in self.recheck(self.dump, flags=("--calls", "matmul", "--accumulation", "float32"))})

    def test_a_wrong_element_among_split_sums_is_called(self):
        def wrong(out):
            out[3, 5] = -1.5 * out.abs().max()
            return out
        for index in (0, len(SPLIT) // 2, len(SPLIT) - 1):
            call = f"Torch.matmul.{index}.forward"
            [row] = [row for row in self.recheck(self.copy(f"wrong{index}", call + ".output.0.pt", wrong)) if row["Call"] == call]
            self.assertEqual((row["Verdict"], row["Element"]), ("beyond", "[3, 5]"), row)

    def test_tf32_is_within_its_bounds_unless_it_is_forbidden(self):
        [row] = self.recheck(self.dump, flags=("--calls", "Torch.mm"))
        self.assertEqual((row["Verdict"], row["Reason"]), ("within", "only if its factors are rounded to TF32 or HF32"), row)
        for flags in ((), ("--accumulation", "any")):
            self.assertEqual(self.recheck(self.dump, flags=("--calls", "Torch.mm", "--factors", "float32", *flags))[0]["Verdict"], "beyond")

    def test_beside_float32_neither_side_is_wrong(self):
        exact = self.copy("exact", "Torch.mm.0.forward.output.0.pt", lambda _: plain_mm(*self.factors))
        both = self.recheck(self.dump, exact, flags=("--calls", "Torch.mm"))
        self.assertEqual([(row["Verdict"], row["Wrong Side"]) for row in both], [("within", "none")] * 2, both)
        self.assertEqual(sorted(bool(row["Reason"]) for row in both), [False, True], both)
        ended = subprocess.run([MSPROBE, "compare", self.dump, exact, "-o", os.path.join(self.folder, "compared")], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, check=False, text=True)
        self.assertIn("Torch.mm.0.forward", ended.stdout)
        self.assertIn("neither side", ended.stdout)
        self.assertIn("only if its factors are rounded to TF32 or HF32", " ".join(ended.stdout.split()))


if __name__ == "__main__":
    unittest.main()
