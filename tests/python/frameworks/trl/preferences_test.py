"""Trainers of TRL, and their key data in rl_compare."""
import os
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
import harness  # noqa: E402
import json  # noqa: E402
import shutil  # noqa: E402


class Preferences(harness.TrainingCase):
    framework = "trl"
    script = "preferences.py"
    imports = ("only_packages", "torch", "torch_training", "transformers", "trl", "datasets")
    usual = ["dump:mix:tensor", "dump:L0:statistics monitor", "launch dump:mix:statistics", "launch monitor"]

    def test_direct_preference_optimization(self):
        self.subject, self.arguments, self.fault = "DPOTrainer", ("dpo",), "model.layers.1.mlp.up_proj"
        self.check_everything()

    def test_group_relative_policy_optimization(self):
        self.subject, self.arguments = "GRPOTrainer, generation in its steps", ("grpo",)
        self.fault = "model.layers.1.mlp.up_proj"
        self.usual = ["dump:mix:statistics monitor", "launch dump:mix:statistics"]
        self.check_everything()

    def test_key_data_of_two_runs(self):
        self.arguments = ("grpo",)
        with self.checking("works", "GRPOTrainer: SingleSave, and rl_compare of two runs"):
            folder = self.folder()
            runs = {}
            for name, variables in (("good", {}), ("again", {}), ("bad", {"RL_FAULT": "1"})):
                runs[name] = os.path.join(folder, name)
                self.environment = dict(variables, RL_DATA=runs[name])
                self.run_training()
            answers = {}
            for name, code in (("again", 0), ("bad", 1)):
                answers[name] = json.loads(self.msprobe("rl_compare", runs[name], runs["good"], "-o", os.path.join(folder, "result"),
                                                        "--json", "--fail-on", "different", exit=code))
                shutil.rmtree(os.path.join(folder, "result"))
            self.assertIn("ref_log_prob", json.dumps(answers["bad"]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
