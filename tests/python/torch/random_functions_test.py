"""seed_all(is_enhanced=True) and random_save: frozen draws, the file of calls, and both taken back."""
import csv
import glob
import os
import tempfile
import textwrap
import unittest

from script_runs import run_anew

PROLOGUE = "import random, sys, torch\nfrom msprobe.pytorch import random_save, seed_all, unfreeze_random\n"


def run(body, folder=None):
    with tempfile.TemporaryDirectory() as scratch:
        folder = folder or scratch
        with open(os.path.join(folder, "script.py"), "w") as file:
            file.write(PROLOGUE + textwrap.dedent(body))
        status, output = run_anew(folder, [], {})
        assert status == 0, output[-3000:]
        return output


class RandomFunctions(unittest.TestCase):
    def test_equal_calls_give_equal_values_until_they_are_unfrozen(self):
        run("""
            before = random.random, torch.rand
            seed_all(5, is_enhanced=True)
            first = random.random(), torch.rand(3).tolist(), torch.zeros(3).uniform_().tolist()
            random.gauss(0, 1); torch.manual_seed(9)
            assert first == (random.random(), torch.rand(3).tolist(), torch.zeros(3).uniform_().tolist())
            seed_all(6, is_enhanced=True)
            assert torch.rand(3).tolist() == first[1]      # the first seed counts, as in the Python tool
            unfreeze_random()
            assert before == (random.random, torch.rand) and "uniform_" not in vars(torch.Tensor)
            assert torch.rand(3).tolist() != torch.rand(3).tolist()
            """)

    def test_a_plain_seed_is_what_it_was_and_keeps_dropout(self):
        run("""
            seed_all(5); one = torch.rand(3)
            seed_all(5); assert torch.equal(one, torch.rand(3)) and not torch.equal(one, torch.rand(3))
            assert (torch.nn.functional.dropout(torch.ones(100)) == 0).any()
            for wrong in (dict(is_enhanced=1), dict(seed=-1), dict(rm_dropout=0)):
                try: seed_all(**wrong)
                except ValueError: continue
                raise AssertionError(wrong)
            """)

    def test_a_loop_that_waits_for_another_number_is_told(self):
        output = run("""
            seed_all(5, is_enhanced=True)
            for _ in range(10001): random.random()
            """)
        self.assertEqual(1, output.count("was called 10000 times in succession"), output)

    def test_calls_are_recorded_with_who_made_them(self):
        with tempfile.TemporaryDirectory() as folder:
            output = run("""
                random_save("calls")
                def draw(): return torch.rand(2)
                draw(); draw(); random.choice([1, 2])
                random_save("elsewhere")
                torch.nn.Linear(2, 2)
                """, folder)
            self.assertIn("changes nothing", output)
            self.assertFalse(os.path.exists(os.path.join(folder, "elsewhere")))
            [path] = glob.glob(os.path.join(folder, "calls", "random_proc*.csv"))
            with open(path, encoding="utf-8-sig", newline="") as file:
                rows = list(csv.reader(file))
            self.assertEqual(["api_name", "stack"], rows[0])
            self.assertEqual(["torch_random.rand.0", "torch_random.rand.1", "python_random.choice.0", "tensor_random.uniform_.0",
                              "tensor_random.uniform_.1"], [row[0] for row in rows[1:]])
            self.assertIn("in draw, \n def draw(): return torch.rand(2) \nFile ", rows[1][1])
            self.assertNotIn("random_functions.py", rows[1][1])


if __name__ == "__main__":
    unittest.main()
