"""bench_path: every call is compared with an earlier dump while it is recorded; the tensors of calls that differ are saved."""
import os
import shutil
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from shim_case import ForkedCase  # noqa: E402

CODE = """
factor = float(os.environ.get("FACTOR", "1"))

class Scale(nn.Module):  # of module calls nothing but this is another
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
    def forward(self, x, scale=None):
        return x * self.weight * factor + (0 if scale is None else scale["a"][0])

model = nn.Sequential(nn.Linear(4, 4), Scale(), nn.Linear(4, 2))
for step in range(2):
    debugger.start(model)
    model(torch.ones(3, 4)).sum().backward()
    debugger.stop(); debugger.step()
print("ended")
"""


class DifferenceSearch(ForkedCase):
    def base(self, code=CODE, level="mix", **keys):
        dump = self.run_code(code, level=level, **dict({"section": {"summary_mode": "md5"}}, **keys))
        os.rename(dump.path(), os.path.join(dump.folder, "base"))
        return dump.folder

    def search(self, folder, code=CODE, level="mix", environment=None, ends_well=True, **section):
        return self.run_code(code, task="tensor", level=level, folder=folder, environment=environment, ends_well=ends_well,
                             section=dict({"summary_mode": "md5", "bench_path": "./base"}, **section))

    def test_equal_runs_save_nothing_and_say_so(self):
        dump = self.search(self.base())
        for step in range(2):
            self.assertEqual(dump.files(step), [])
            manifest = dump.load("manifest.json", step)
            self.assertEqual((manifest["differing_calls"], manifest["complete"], manifest["lost_files"]), (0, True, 0))
            calls = [name for name, entry in dump.data(step).items() if any(entry.get("output", []))]
            self.assertEqual(manifest["compared_calls"], len(calls))
        self.assertIn("no call differs from", dump.output)
        self.assertIn("ended", dump.output)

    def test_the_first_that_differs_is_named_with_its_line_and_saved(self):
        for level, name in (("L0", "Module.1.Scale.forward.0"), ("L1", "Tensor.__mul__.1.forward"), ("mix", "Tensor.__mul__.1.forward")):
            dump = self.search(self.base(level=level), level=level, environment={"FACTOR": "2"})
            manifest = dump.load("manifest.json")
            self.assertEqual(manifest["first_difference"], name)
            self.assertEqual(manifest["differing_calls"], 1)
            self.assertIn(name + " differs", dump.output)
            self.assertRegex(dump.output, r"called from .*:[0-9]+ \(")
            self.assertTrue(dump.files() and all(file.startswith(name) for file in dump.files()), dump.files())
            self.assertEqual(dump.tensor(name + ".output.0.pt").shape, (3, 4))
            self.assertEqual(dump.steps(), ["step0"], "the capture has ended")
            self.assertIn("ended", dump.output)

    def test_all_of_them_where_no_number_ends_it(self):
        dump = self.search(self.base(level="L0"), level="L0", environment={"FACTOR": "2"}, diff_nums=-1)
        self.assertEqual(dump.steps(), ["step0", "step1"])
        for step in range(2):
            saved = {file.split(".input.")[0].split(".output.")[0].split(".parameters.")[0] for file in dump.files(step)}
            self.assertEqual(saved, {"Module.1.Scale.forward.0", "Module.1.Scale.backward.0"})
            self.assertGreater(len(dump.data(step)), 4, "calls that do not differ are recorded, too")

    def test_keywords_nesting_and_parameters_are_inputs(self):
        code = """
        x, other = torch.ones(4), float(os.environ.get("FACTOR", "1"))
        class Add(nn.Module):
            def __init__(self):
                super().__init__()
                self.bias = nn.Parameter(torch.full((4,), float(os.environ.get("BIAS", "1"))))
            def forward(self, x, scale=None):
                return x + scale["a"][0] + self.bias
        model = nn.Sequential(Add())
        debugger.start(model)
        with torch.no_grad():
            model[0](x, scale={"a": [torch.full((4,), other)]})
        debugger.stop(); debugger.step()
        """
        folder = self.base(code, "L0")
        for environment in ({"FACTOR": "3"}, {"BIAS": "3"}):
            dump = self.search(folder, code, "L0", environment)
            manifest = dump.load("manifest.json")
            self.assertEqual((manifest["compared_calls"], manifest["differing_calls"]), (0, 0), environment)
            self.assertEqual(dump.files(), [])
            shutil.rmtree(dump.path())

    def test_a_random_number_without_inputs_differs(self):
        code = """
        torch.manual_seed(int(os.environ.get("FACTOR", "1")))
        debugger.start()
        torch.bernoulli(torch.full((64,), 0.5))
        debugger.stop(); debugger.step()
        """
        dump = self.search(self.base(code, "L1"), code, "L1", {"FACTOR": "2"})
        self.assertEqual(dump.load("manifest.json")["first_difference"], "Torch.bernoulli.0.forward")

    def test_in_place_calls_are_compared_by_what_they_were_given(self):
        code = """
        x = torch.ones(4)
        debugger.start()
        x.mul_(float(os.environ.get("FACTOR", "1")))
        debugger.stop(); debugger.step()
        """
        dump = self.search(self.base(code, "L1"), code, "L1", {"FACTOR": "2"})
        self.assertEqual(dump.tensor("Tensor.mul_.0.forward.input.0.pt").tolist(), [1, 1, 1, 1])
        self.assertEqual(dump.tensor("Tensor.mul_.0.forward.output.0.pt").tolist(), [2, 2, 2, 2])

    def test_what_is_missing_is_told_and_the_training_goes_on(self):
        folder = self.base(section={"summary_mode": "statistics"})
        dump = self.search(folder)
        self.assertIn("has no checksums", dump.output)
        self.assertIn("ended", dump.output)
        os.rename(os.path.join(folder, "base", "step0"), os.path.join(folder, "base", "step7"))
        dump = self.search(folder)
        self.assertIn("step0", dump.output)
        self.assertIn("ended", dump.output)

    def test_a_damaged_dump_is_told_and_the_training_goes_on(self):
        folder = self.base()
        path = os.path.join(folder, "base", "step0", "rank", "dump.json")
        with open(path) as file:
            text = file.read()
        for broken in (text[:len(text) // 2], "[]", "", text.replace('"md5": "', '"md5": "x')):
            with open(path, "w") as file:
                file.write(broken)
            dump = self.search(folder, environment={"FACTOR": "2"})
            self.assertIn("ended", dump.output)
            self.assertEqual(dump.files() if dump.steps() and os.path.isdir(dump.path("step0", "rank")) else [], [])

    def test_what_makes_no_sense_is_told(self):
        folder = self.base()
        for section, text in (({"bench_path": "./none"}, "is not a folder"), ({"summary_mode": "statistics"}, "with summary_mode md5"),
                              ({"bench_path": 3}, "bench_path"), ({"diff_nums": -2}, "diff_nums")):
            dump = self.search(folder, ends_well=False, **section)
            self.assertIn(text, dump.output)
            self.assertNotIn("ended", dump.output)

    def test_changes_nothing(self):
        import torch
        code = """
            model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(), nn.Linear(4, 1))
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            for step in range(3):
                %s
                model(torch.randn(8, 4)).pow(2).mean().backward()
                %s
                optimizer.step(); optimizer.zero_grad()
            torch.save([list(model.parameters()), torch.get_rng_state()], "end.pt")
            """
        hooks = ("debugger.start(model)", "debugger.stop(); debugger.step()")
        folder = self.base(code % hooks)
        ends = []
        for around in (("", ""), hooks):
            self.search(folder, code % around)
            ends.append(torch.load(os.path.join(folder, "end.pt")))
        self.assertTrue(all(torch.equal(*pair) for pair in zip(ends[0][0], ends[1][0])))
        self.assertTrue(torch.equal(ends[0][1], ends[1][1]))


if __name__ == "__main__":
    unittest.main()
