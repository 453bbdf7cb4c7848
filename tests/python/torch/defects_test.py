"""What older tools of this kind get wrong, and this one must not. Those of values, modules and
collectives stand beside their fellows in hooks_test and distributed_test."""
import json
import os
import sys
import unittest

try:
    import torch
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

from shim_case import PROLOGUE, ShimCase


class Filters(ShimCase):
    def test_the_last_call_of_a_scope_has_its_output(self):
        dump = self.run_code("""
            debugger.start()
            for _ in range(3): torch.abs(torch.ones(1))
            debugger.stop(); debugger.step()
        """, level="L1", section={"scope": ["Torch.abs.0.forward", "Torch.abs.1.forward"]})
        self.assertEqual(dump.names(), ["Torch.abs.0.forward", "Torch.abs.1.forward"])
        self.assertIn("output", dump.data()["Torch.abs.1.forward"])

    def test_exact_names_do_not_match_longer_ones(self):
        dump = self.run_code("""
            debugger.start()
            for _ in range(11): torch.abs(torch.ones(1))
            debugger.stop(); debugger.step()
        """, level="L1", section={"list": ["name-regex(abs\\.1\\.)"]})
        self.assertEqual(dump.names(), ["Torch.abs.1.forward"])

    def test_misspelled_keys_are_told_with_the_right_one(self):
        dump = self.run_code("", level="L1", section={"lists": []}, ends_well=False)
        self.assertIn("lists", dump.output)
        self.assertIn('"list"', dump.output)
        self.assertIn("config.json", dump.output)


class Overflow(ShimCase):
    def test_inputs_are_those_before_the_call_even_when_it_overwrites_them(self):
        dump = self.run_code("""
            debugger.start()
            torch.ones(2).mul_(float("inf"))
            debugger.stop(); debugger.step()
        """, task="overflow_check", level="L1", section={"overflow_nums": -1})
        entry = dump.data()["Tensor.mul_.0.forward"]
        self.assertEqual(list(entry), ["input_args", "input_kwargs", "output", "is_recompute"])
        self.assertEqual(entry["input_args"][0]["Max"], 1.0)
        saved = dump.tensor("Tensor.mul_.0.forward.input.0.pt")
        self.assertEqual(saved.tolist(), [1.0, 1.0])

    def test_calls_without_overflow_leave_no_entry_but_a_stack(self):
        dump = self.run_code("""
            debugger.start()
            torch.abs(torch.ones(2))
            torch.exp(torch.full((2,), 1000.0))
            debugger.stop(); debugger.step()
            debugger.start(); torch.exp(torch.full((2,), 1000.0)); debugger.stop(); debugger.step()
        """, task="overflow_check", level="L1")
        self.assertEqual(dump.names(), ["Torch.exp.0.forward"])
        self.assertEqual(dump.steps(), ["step0"])
        self.assertIn("Torch.abs.0.forward", json.dumps(dump.load("stack.json")))


class Folders(ShimCase):
    FIRST = """
        debugger.start(); torch.abs(torch.ones(2)); torch.exp(torch.ones(2))
        debugger.stop(); debugger.step()
    """
    SECOND = """
        for _ in range(2):
            debugger.start(); torch.abs(torch.ones(2)); debugger.stop(); debugger.step()
        print("trained to the end")
    """

    def test_the_dump_of_another_run_is_neither_replaced_nor_mixed_with(self):
        folder = self.folder()
        first = self.run_code(self.FIRST, task="tensor", level="L1", folder=folder)
        files = first.files()
        dump = self.run_code(self.SECOND, task="tensor", level="L1", folder=folder)
        self.assertEqual(dump.files(), files)
        self.assertEqual(dump.steps(), ["step0"])
        self.assertIn("trained to the end", dump.output)
        self.assertEqual(dump.output.count("holds the dump of another run"), 1)

    def test_the_same_run_replaces_its_dump_and_force_replaces_any(self):
        for variables in ({"MSPROBE_RUN_ID": "one"}, {"MSPROBE_REPLACE_DUMP": "1"}):
            folder = self.folder()
            self.run_code(self.FIRST, task="tensor", level="L1", folder=folder, environment=variables)
            dump = self.run_code(self.SECOND, task="tensor", level="L1", folder=folder,
                                 environment=variables)
            self.assertEqual(dump.files(), ["Torch.abs.0.forward.input.0.pt",
                                            "Torch.abs.0.forward.output.0.pt"])
            self.assertTrue(dump.load("manifest.json")["complete"])

    def test_an_end_without_stop_and_step_writes_the_files(self):
        dump = self.run_code("""
            debugger.start(); torch.abs(torch.ones(2))
            raise SystemExit(0)
        """, level="L1")
        self.assertEqual(dump.names(), ["Torch.abs.0.forward"])

    def test_a_forked_child_leaves_the_dump_alone(self):
        dump = self.run_code("""
            debugger.start(); torch.abs(torch.ones(2))
            child = os.fork()
            if child == 0:
                torch.exp(torch.ones(2))
                debugger.stop(); debugger.step()
                os._exit(0)
            os.waitpid(child, 0)
            torch.sin(torch.ones(2))
            debugger.stop(); debugger.step()
        """, level="L1")
        self.assertEqual(dump.names(), ["Torch.abs.0.forward", "Torch.sin.0.forward"])

    def test_strict_json_has_no_bare_words(self):
        dump = self.run_code("""
            debugger.start(); torch.abs(torch.tensor([float("nan"), float("inf")]))
            debugger.stop(); debugger.step()
        """, level="L1", strict_json=True)
        with open(dump.path("step0", "rank", "dump.json")) as file:
            def refuse(word):
                raise AssertionError(word)
            json.load(file, parse_constant=refuse)


class Environment(ShimCase):
    def test_nothing_is_imported_that_a_capture_does_not_need(self):
        self.run_code("""
            import msprobe.pytorch, sys
            for name in ("tensorboard", "pandas", "openpyxl", "yaml", "tqdm", "matplotlib"):
                assert name in before or name not in sys.modules, name
        """, prologue="import sys\nimport torch\nbefore = set(sys.modules)\n")

    def test_the_package_loads_from_its_folder_alone(self):
        self.run_code("""
            import msprobe, os
            from msprobe import _native
            assert os.path.exists(os.path.join(os.path.dirname(msprobe.__file__),
                                               "libmsprobe_capture.so"))
            assert _native.version()
        """, prologue="")


class Face(ShimCase):
    def test_the_debugger_is_one_per_process_and_answers_on_the_class(self):
        self.run_code("""
            assert PrecisionDebugger("other.json") is debugger
            PrecisionDebugger.set_init_step(5)
            PrecisionDebugger.start(); torch.abs(torch.ones(1))
            PrecisionDebugger.forward_backward_dump_end(); PrecisionDebugger.step()
            assert os.listdir("dump") == ["step5"]
            for wrong in (-1, True, "1"):
                try: debugger.set_init_step(wrong)
                except (ValueError, TypeError): pass
                else: raise AssertionError(wrong)
        """, level="L1")

    def test_methods_before_construction_say_so(self):
        dump = self.run_code("PrecisionDebugger.start()", ends_well=False,
                             prologue="from msprobe.pytorch import PrecisionDebugger\n")
        self.assertIn("has not been constructed", dump.output)

    def test_arguments_win_over_the_file(self):
        dump = self.run_code("""
            debugger = PrecisionDebugger("config.json", task="tensor", level="L1", step=[1])
            for _ in range(3):
                debugger.start(); torch.abs(torch.ones(1)); debugger.stop(); debugger.step()
        """, prologue="import torch\nfrom msprobe.pytorch import PrecisionDebugger\n")
        self.assertEqual(dump.steps(), ["step1"])
        self.assertEqual(len(dump.files(1)), 2)

    def test_a_level_with_modules_asks_for_the_model(self):
        dump = self.run_code("debugger.start()", level="L0", ends_well=False)
        self.assertIn("start(model)", dump.output)
        dump = self.run_code("debugger.start(torch.ones(1))", level="L0", ends_well=False)
        self.assertIn("torch.nn.Module", dump.output)

    def test_seeds_make_runs_equal_and_keep_what_dropout_would_drop(self):
        self.run_code("""
            from msprobe.pytorch import seed_all
            seed_all(3, rm_dropout=True); first = torch.rand(3)
            seed_all(3); assert torch.equal(first, torch.rand(3))
            assert torch.equal(F.dropout(torch.ones(100), 0.9), torch.ones(100))
            assert torch.equal(nn.Dropout(0.9)(torch.ones(100)), torch.ones(100))
            for wrong in ({"seed": -1}, {"seed": True}, {"seed": 2**32}, {"mode": 1},
                          {"rm_dropout": "no"}):
                try: seed_all(**wrong)
                except ValueError: pass
                else: raise AssertionError(wrong)
        """)

    def test_kernels_are_asked_of_the_runtime_and_its_absence_is_told(self):
        dump = self.run_code("""
            layer = nn.Linear(2, 2)
            for _ in range(2):
                debugger.start(); layer(torch.ones(1, 2)).sum().backward()
                debugger.stop(); debugger.step()
        """, task="tensor", level="L2", section={"list": ["Functional.linear.0.forward"]})
        self.assertEqual(dump.output.count("no kernel is dumped"), 1, dump.output)


class Training(ShimCase):
    """The same numbers with and without recording."""

    CODE = """
        from models import SmallCNN, TinyGPT
        torch.manual_seed(11)
        model = %s
        model = model.to(torch.%s)
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        for step in range(2):
            %s
            optimizer.zero_grad()
            for part in range(2):
                if isinstance(model, SmallCNN):
                    loss = F.nll_loss(model(torch.randn(2, 3, 8, 8)), torch.tensor([1, 2]))
                else:
                    x = torch.randint(0, 32, (2, 8))
                    loss = F.cross_entropy(model(x).view(-1, 32).float(), x.view(-1))
                loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            %s
        print([p.double().sum().item() for p in model.parameters()])
    """

    def assert_unchanged(self, model, dtype="float32", **options):
        prologue = "import sys\n" + PROLOGUE
        recorded = self.run_code(self.CODE % (model, dtype, "debugger.start(model)",
                                              "debugger.stop(); debugger.step()"),
                                 prologue=prologue, **options)
        plain = self.run_code(self.CODE % (model, dtype, "", ""), prologue=prologue)
        self.assertEqual(recorded.output.splitlines()[-1], plain.output.splitlines()[-1])
        self.assertEqual(recorded.steps(), ["step0", "step1"])
        for step in (0, 1):
            self.assertEqual(recorded.errors(step), "")
        return recorded

    def test_of_a_convolutional_net(self):
        self.assert_unchanged("SmallCNN()")

    def test_of_a_transformer(self):
        self.assert_unchanged("TinyGPT()")

    def test_in_bfloat16(self):
        self.assert_unchanged("TinyGPT()", "bfloat16")

    def test_with_re_run_forwards(self):
        self.assert_unchanged("TinyGPT(ckpt=True)")

    def test_with_gradients_of_real_inputs(self):
        dump = self.assert_unchanged("TinyGPT()", api_backward="inputs")
        self.assertIn("Functional.linear.0.backward", dump.names())

    def test_with_every_tensor_saved(self):
        dump = self.assert_unchanged("SmallCNN()", task="tensor")
        named = [value["data_name"] for value in _tensors(dump.data())]
        self.assertEqual(sorted(named), dump.files())


def _tensors(value):
    if isinstance(value, dict):
        if "data_name" in value:
            yield value
        else:
            for item in value.values():
                yield from _tensors(item)
    elif isinstance(value, list):
        for item in value:
            yield from _tensors(item)


if __name__ == "__main__":
    unittest.main(verbosity=1)
