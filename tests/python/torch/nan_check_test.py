"""Task nan_check: every call is recorded without statistics, and says whether its results hold NaN or infinities."""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from shim_case import HERE, ForkedCase  # noqa: E402

MSPROBE = os.environ.get("MSPROBE", os.path.join(HERE, "..", "..", "..", "build", "bin", "msprobe"))
LEAF = {"type", "dtype", "shape", "requires_grad"}

CODE = """
x = torch.tensor([1.0, -1.0], requires_grad=True)
debugger.start()
y = torch.log(x)          # NaN
z = torch.mul(y, 1.0)     # of the same NaN
torch.exp(torch.tensor([1000.0]))
torch.abs(torch.tensor([1, 2]))
torch.sum(z).backward()
debugger.stop(); debugger.step()
"""


class NanCheck(ForkedCase):
    def check(self, code=CODE, **keys):
        return self.run_code(code, task="nan_check", **dict({"level": "L1"}, **keys))

    def verdicts(self, dump):
        return {name: entry.get("is_nan") for name, entry in dump.data().items()}

    def test_says_of_every_call_whether_its_results_are_finite(self):
        dump = self.check()
        verdicts = self.verdicts(dump)
        self.assertEqual([verdicts["Torch.%s.0.forward" % name] for name in ("log", "mul", "exp", "abs", "sum")], [1, 1, 1, 0, 1])
        self.assertEqual(verdicts["Torch.sum.0.backward"], 0)
        self.assertTrue(all(verdict in (0, 1) for verdict in verdicts.values()), verdicts)
        manifest = dump.load("manifest.json")
        self.assertEqual(manifest["non_finite_calls"], sum(verdicts.values()))
        self.assertEqual(manifest["first_non_finite"], "Torch.log.0.forward")
        self.assertTrue(manifest["complete"])
        self.assertIn("Torch.log.0.forward gave 1 NaN and 0 infinities", dump.output)
        self.assertEqual(dump.files(), [])

    def test_leaves_have_no_values(self):
        for entry in self.check().data().values():
            for leaf in entry.get("input_args", []) + entry["output"]:
                if isinstance(leaf, dict) and "dtype" in leaf:
                    self.assertEqual(set(leaf) - {"requires_grad"}, LEAF - {"requires_grad"})

    def test_looks_at_double_as_it_is_and_at_strided_and_half_tensors(self):
        verdicts = self.verdicts(self.check("""
            debugger.start()
            torch.abs(torch.tensor([1e300], dtype=torch.float64))
            torch.neg(torch.tensor([float("-inf"), 1.0], dtype=torch.bfloat16))
            wide = torch.zeros(4, 4); wide[3, 1] = float("nan")
            torch.transpose(wide, 0, 1)
            torch.narrow(wide, 0, 0, 3)
            torch.abs(torch.zeros(0))
            debugger.stop(); debugger.step()
            """, precision="low"))
        self.assertEqual([verdicts["Torch.%s.0.forward" % name] for name in ("neg", "transpose", "narrow")], [1, 1, 0])
        self.assertEqual([verdicts["Torch.abs.%d.forward" % number] for number in (0, 1)], [0, 0])

    def test_says_null_of_what_cannot_be_read(self):
        verdicts = self.verdicts(self.check("""
            nowhere = torch.ones(3, device="meta")   # what this calls is another thing in each version
            debugger.start()
            torch.abs(nowhere)
            debugger.stop(); debugger.step()
            """))
        self.assertEqual(verdicts, {"Torch.abs.0.forward": None})

    def test_bad_inputs_alone_are_none_of_a_call(self):
        verdicts = self.verdicts(self.check("""
            debugger.start()
            torch.nan_to_num(torch.tensor([float("nan")]))
            debugger.stop(); debugger.step()
            """))
        self.assertEqual(verdicts, {"Torch.nan_to_num.0.forward": 0})

    def test_counts_what_it_found_where_extended_statistics_are_asked_for(self):
        entry = self.check(extended_statistics=True).data()["Torch.exp.0.forward"]
        self.assertEqual(entry["output"][0]["extended"]["positive_infinity_count"], 1)
        self.assertNotIn("extended", entry["input_args"][0])

    def test_saves_the_tensors_of_a_list(self):
        dump = self.check(section={"tensor_list": ["log"]})
        self.assertEqual([name for name in dump.files() if "forward" in name],
                         ["Torch.log.0.forward.input.0.pt", "Torch.log.0.forward.output.0.pt"])
        self.assertTrue(dump.tensor("Torch.log.0.forward.output.0.pt").isnan()[1])

    def test_judges_modules_and_gradients_of_parameters(self):
        dump = self.check("""
            model = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
            debugger.start(model)
            (model(torch.ones(1, 2)) * float("inf")).sum().backward()
            debugger.stop(); debugger.step()
            """, level="L0")
        verdicts = self.verdicts(dump)
        self.assertEqual([verdicts[name] for name in ("Module.0.Linear.forward.0", "Module.1.Tanh.backward.0")], [0, 1])
        gradients = dump.data()["Module.0.Linear.parameters_grad"]
        self.assertEqual(list(gradients), ["weight", "bias"], "no parameter is called is_nan")
        self.assertGreater(dump.load("manifest.json")["non_finite_calls"], 0)

    def test_what_makes_no_sense_is_told(self):
        for keys, text in (({"level": "debug"}, "level L0, L1 or mix"), ({"section": {"data_mode": ["input"]}}, "without outputs")):
            dump = self.run_code("", task="nan_check", ends_well=False, **dict({"level": "L1"}, **keys))
            self.assertIn(text, dump.output)

    def test_changes_nothing(self):
        code = """
            model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 1))
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for step in range(3):
                %s
                model(torch.randn(8, 4)).pow(2).mean().backward()
                optimizer.step(); optimizer.zero_grad()
                %s
            torch.save([list(model.parameters()), torch.get_rng_state()], "end.pt")
            """
        ends = []
        for hooks in (("", ""), ("debugger.start(model)", "debugger.stop(); debugger.step()")):
            dump = self.check(code % hooks, level="mix")
            with open(os.path.join(dump.folder, "end.pt"), "rb") as file:
                import torch
                ends.append(torch.load(file))
        self.assertTrue(all(torch.equal(*pair) for pair in zip(ends[0][0], ends[1][0])))
        self.assertTrue(torch.equal(ends[0][1], ends[1][1]))

    @unittest.skipUnless(os.path.exists(MSPROBE), "the program is not built")
    def test_commands_read_it(self):
        dump = self.check()
        run = subprocess.run([MSPROBE, "nan_analyze", "-i", dump.path("step0"), "-o", os.path.join(dump.folder, "out"), "--json"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("Torch.log.0.forward", json.dumps(json.loads(run.stdout)))
        shown = subprocess.run([MSPROBE, "show", dump.path("step0")], stdout=subprocess.PIPE, universal_newlines=True)
        self.assertEqual(shown.returncode, 0)
        self.assertNotIn("is_nan", shown.stdout)


if __name__ == "__main__":
    unittest.main()
