"""tests/bench/guard.py with programs that only burn time: an equal one passes, a slower one fails by the ratio to the one before or by
that to the roof, one that was slow for a while passes, one that fails ends the guard. usage: guard_test.py REPOSITORY"""
import contextlib
import io
import os
import sys
import tempfile
import unittest

ROOT = os.path.abspath(sys.argv.pop(1))
sys.path.insert(0, os.path.join(ROOT, "tests", "bench"))
import guard

ROWS = guard.ROWS

# Spins for the seconds in its first argument, or in the file SECONDS beside it as long as that has lines, one per run.
PROGRAM = """#!/usr/bin/env python3
import os, sys, time
lines = open(os.path.join(os.path.dirname(sys.argv[0]), "seconds")).read().split()
if lines[0] == "fail":
    sys.exit(3)
if len(lines) > 1:
    open(os.path.join(os.path.dirname(sys.argv[0]), "seconds"), "w").write("\\n".join(lines[1:]))
end = time.process_time() + float(lines[0])
while time.process_time() < end:
    pass
"""


class GuardTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.addCleanup(setattr, guard, "ROWS", ROWS)
        guard.ROWS = {"spin": (self.make_input, ["{in}", "{out}"], None, 1e9)}

    @staticmethod
    def make_input(folder):
        with open(os.path.join(folder, "input"), "wb") as file:
            file.write(bytes(1 << 20))

    def program(self, name, *seconds):
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        with open(os.path.join(folder, "seconds"), "w", encoding="utf-8") as file:
            file.write("\n".join(map(str, seconds)))
        path = os.path.join(folder, "msprobe")
        with open(path, "w", encoding="utf-8") as file:
            file.write(PROGRAM)
        os.chmod(path, 0o755)
        return path

    def run_guard(self, *arguments):
        """(exit code, what was printed)"""
        kept, sys.argv = sys.argv, ["guard.py", "--quick", "--data", os.path.join(self.folder, "data")] + list(arguments)
        shown = io.StringIO()
        try:
            with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
                return guard.main(), shown.getvalue()
        finally:
            sys.argv = kept

    def test_an_equal_program_passes(self):
        code, shown = self.run_guard("--against", self.program("before", 0.1), self.program("now", 0.1))
        self.assertEqual(code, 0, shown)
        self.assertIn("NO LOSS in 1 rows", shown)

    def test_a_slower_program_fails(self):
        code, shown = self.run_guard("--against", self.program("before", 0.04), self.program("now", 0.12))
        self.assertEqual(code, 1, shown)
        self.assertRegex(shown, r"LOSS: \d\.\d\d times the program before")

    def test_a_loss_that_does_not_repeat_passes(self):
        # One run that is not counted and three that are; after them as fast as the one before.
        code, shown = self.run_guard("--against", self.program("before", 0.04), self.program("now", 0.12, 0.12, 0.12, 0.12, 0.04))
        self.assertEqual(code, 0, shown)
        self.assertIn("a first series was slower", shown)

    def test_more_than_the_roof_allows_fails(self):
        guard.ROWS = {"spin": (self.make_input, ["{in}", "{out}"], None, 2)}
        code, shown = self.run_guard(self.program("now", 0.02))
        self.assertEqual(code, 1, shown)
        self.assertIn("times its roof, at most 2 are allowed", shown)

    def test_a_program_that_fails_ends_it(self):
        code, shown = self.run_guard(self.program("now", "fail"))
        self.assertEqual(code, 2, shown)
        self.assertIn("ended with 3", shown)

    def test_writes_its_table(self):
        page = os.path.join(self.folder, "page.md")
        with open(page, "w", encoding="utf-8") as file:
            file.write("before\n" + guard.TABLE_BEGIN + "\nold\n" + guard.TABLE_END + "\nbehind\n")
        code, shown = self.run_guard("--update", page, self.program("now", 0.02))
        self.assertEqual(code, 0, shown)
        with open(page, encoding="utf-8") as file:
            text = file.read()
        self.assertRegex(text, r"(?s)^before\n.*\| spin \| \d+\.\d \| 1e\+09 \| a plain read of the input \|\n<!-- bench-guard: end -->\nbehind\n$")
        self.assertNotIn("old", text)

    def test_every_row_is_whole(self):
        for name, (make, command, roof, limit) in ROWS.items():
            self.assertTrue(make or roof, name)
            self.assertIn("{out}", " ".join(command), name)
            self.assertGreater(limit, 1, name)


if __name__ == "__main__":
    unittest.main()
