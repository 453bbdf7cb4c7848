"""What msprobe says of two packs that ConfigChecker recorded."""
import json
import os
import shutil
import subprocess
import sys
import unittest

try:
    import torch  # noqa: F401
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

from config_check_case import ConfigCheckCase, Pack
from shim_case import HERE

MSPROBE = os.environ.get("MSPROBE") or shutil.which("msprobe")
GOLDEN = os.environ.get("MSPROBE_GOLDEN") or os.path.join(HERE, "..", "..", "..", "..", "shared",
                                                          "golden")


class Verdicts(ConfigCheckCase):
    """Two toy trainings that we record, compared by the program."""

    def verdict(self, bench, cmp):
        """({check: passed}, {check: rows})"""
        result = os.path.join(self.folder(), "result")
        done = subprocess.run([MSPROBE, "-f", "pytorch", "config_check", "-c", bench, cmp, "-o",
                               result, "--format", "json"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout.decode())
        with open(os.path.join(result, "result.json")) as file:
            checks = json.load(file)["checks"]
        return ({check["check"]: check["pass_check"] for check in checks},
                {check["check"]: check["rows"] for check in checks})

    def failing(self, verdict):
        return [check for check, passed in verdict[0].items() if not passed]

    def test_the_same_training_twice_passes_all_six(self):
        verdict = self.verdict(self.train(), self.train())
        self.assertEqual(verdict[0], dict.fromkeys(
            ("env", "pip", "dataset", "weights", "hyperparameters", "random"), True))
        self.assertEqual(len(verdict[1]["dataset"]), 6)  # 3 steps of two tensors
        self.assertEqual(len(verdict[1]["weights"]), 12)
        self.assertTrue(all(row["check_result"] for row in verdict[1]["random"]))

    def test_a_perturbed_weight_is_named(self):
        changed = self.train(change="model.second.bias.data[0] += 1e-3")
        verdict = self.verdict(self.train(), changed)
        self.assertEqual(self.failing(verdict), ["weights"])
        first = [row["weight_name"] for row in verdict[1]["weights"]
                 if row["step"] == 0 and row["equal"] is False]
        self.assertEqual(first, ["second.bias"])

    def test_other_data_fail(self):
        verdict = self.verdict(self.train(), self.train(data="2.0"))
        self.assertIn("dataset", self.failing(verdict))
        self.assertNotIn("random", self.failing(verdict))
        self.assertEqual([row["tag"] for row in verdict[1]["dataset"]
                          if row["step"] == 0 and row["equal"] is False], ["args.0"])

    def test_another_random_call_fails(self):
        verdict = self.verdict(self.train(), self.train(call="torch.rand(2); torch.rand(2)"))
        self.assertIn("random", self.failing(verdict))
        verdict = self.verdict(self.train(), self.train(call="pass"))
        self.assertIn("random", self.failing(verdict))

    def test_another_environment_fails(self):
        environment = {"NCCL_ALGO": "Ring", "SOME_API_TOKEN": "secret"}
        changed = self.train(environment=environment)
        verdict = self.verdict(self.train(), changed)
        self.assertEqual(self.failing(verdict), ["env"])
        self.assertEqual(Pack(changed).load("env")["NCCL_ALGO"], "Ring")
        self.assertNotIn(b"secret", Pack(changed).content["env"])

    def test_without_scripts_nothing_is_missing(self):
        pack, output = self.record("ConfigChecker(output_zip_path='pack.zip')")
        self.assertEqual([name for name in pack.names if name != "versions"], ["env", "pip"])
        self.assertNotIn("warning", output)

    def test_a_script_that_is_missing_is_told(self):
        pack, output = self.record(
            "ConfigChecker(shell_path=['missing.sh'], output_zip_path='pack.zip')")
        self.assertIn("env", pack.names)
        self.assertIn("missing.sh", output)

    def test_packages_and_scripts_are_those_of_the_training(self):
        pack = Pack(self.train())
        self.assertIn("\nnumpy=", "\n" + pack.content["pip"].decode())
        self.assertEqual(pack.load("hyperparameters/hyperparameters_static.json"),
                         {"lr": "0.1", "seq-length": "16"})
        variables = pack.load("env")
        for name in ("PYTHONHASHSEED", "HCCL_DETERMINISTIC"):
            self.assertEqual(variables.get(name), os.environ.get(name))

    def test_it_can_be_asked_from_python(self):
        bench, cmp = self.train(), self.train(data="2.0")
        output = self.record("""
            for _ in range(2):
                ConfigChecker.compare(%r, %r, "result", fmk="pytorch")
            assert os.path.exists("result/result.xlsx")
            try: ConfigChecker.compare(%r, "missing.zip", "other")
            except RuntimeError as error: assert "missing.zip" in str(error)
            else: raise AssertionError
        """ % (bench, cmp, bench))[1]
        self.assertIn("dataset", output)

    def test_the_layout_is_that_of_the_recorded_packs(self):
        golden = os.path.join(GOLDEN, "config_check", "gpu_vs_npu_dynamic", "bench.zip")
        if not os.path.exists(golden):
            self.skipTest("the golden folder is not here (MSPROBE_GOLDEN)")
        theirs, ours = Pack(golden), Pack(self.train())
        wanted = [name for name in theirs.names if "step" not in name or "step0" in name]
        self.assertEqual([name for name in wanted if name not in ours.names],
                         ["hyperparameters/hyperparameters_dynamic.json"])  # without Megatron
        self.assertEqual(set(next(iter(theirs.weights().values()))),
                         set(ours.weights()["first.weight"]))
        self.assertEqual(set(theirs.dataset()), set(ours.dataset()))
        entry = ours.random()["torch.rand"][0]
        self.assertEqual(set(entry), set(theirs.random()["torch.rand"][0]))
        frame = r"^File /.*, line \d+, in .*, .*$"
        for pack in (theirs, ours):
            for text in pack.random()["torch.rand"][0]["stack"]:
                self.assertRegex(text, frame)
        for theirs_member, ours_member in zip(theirs.members, ours.members):
            self.assertEqual(theirs_member.external_attr, ours_member.external_attr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
