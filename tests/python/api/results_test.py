"""The commands as Python functions: msprobe.compare("a", "b").verdict. No framework is needed.

Each function is called once with data of this repository; what a Result does with tables, pages and errors is tried with those that are
quick. Whatever happens, no file is left behind.
"""
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

import msprobe
from msprobe import _program

REPOSITORY = Path(__file__).resolve().parents[3]
EXAMPLE, DATA = REPOSITORY / "docs/example", REPOSITORY / "tests/data"
NPU, BENCH = EXAMPLE / "npu", EXAMPLE / "bench"
CHECKPOINTS = [DATA / "ckpt/single_vs_tp2pp2" / side for side in "ab"]
sys.path.insert(0, str(REPOSITORY / "tests/cli"))
import monitor_data  # noqa: E402
import page_tests  # noqa: E402

needs_pages = unittest.skipUnless(page_tests.has_pages(_program.find()), page_tests.NO_PAGES)


class Case(unittest.TestCase):
    """Each test in a folder of its own, beside one for temporary files that is empty in the end."""

    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="msprobe_api_")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name) / "work"
        self.temporary = Path(scratch.name) / "tmp"
        self.folder.mkdir()
        self.temporary.mkdir()
        before = Path.cwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        for patch in (mock.patch.object(tempfile, "tempdir", str(self.temporary)), mock.patch.dict(os.environ, TMPDIR=str(self.temporary))):
            patch.start()
            self.addCleanup(patch.stop)

    def tearDown(self):
        self.assertEqual(list(self.temporary.iterdir()), [], "temporary files stay")

    def without_pandas(self):
        return mock.patch.dict(sys.modules, {"pandas": None})


class Functions(Case):
    def check(self, result, verdict, tables, **row):
        self.assertEqual(result.verdict, verdict)
        self.assertTrue(repr(result).startswith(result.text))
        self.assertTrue(result.text)
        self.assertEqual(result.tables, tables)
        self.assertEqual(result.exit_code, 0)
        self.assertEqual(result.files, [])
        self.assertEqual(list(self.folder.iterdir()), [])
        records = result.records()
        self.assertTrue(records)
        for name, value in row.items():
            self.assertEqual(records[0][name.replace("__", " ")], value)
        self.assertIn("<table>", result._repr_html_())
        return result

    def test_compare(self):
        result = self.check(msprobe.compare(NPU, BENCH), "DIFFERENT", ["rank"], NPU__Name="Module.tok.Embedding.forward.0.input.0", Cosine=1.0)
        self.assertEqual(len(result.records()), 164)
        self.assertEqual((result.first.label, result.first.text), ("parameter", "blocks.0.mlp.fc1 (Linear)"))
        self.assertEqual(result.first.line, 43)
        self.assertTrue(result.first.file.endswith("models.py"))
        self.assertIn("Module.blocks.0.mlp.fc1.Linear.forward.0.parameters.weight", result.first.details.values())
        self.assertEqual(result.command, "compare")
        self.assertTrue(result.levels["different"])
        self.assertTrue(result.next)

    def test_ckpt_compare(self):
        result = self.check(msprobe.ckpt_compare(*CHECKPOINTS), "DIFFERENT", ["parameters"], outcome="different", shape_1=[16, 8])
        self.assertEqual(result.first.text, "decoder.layers.0.input_layernorm.bias")
        self.assertEqual(len(result.records()), 48)

    def test_perf_compare(self):
        profiles = EXAMPLE / "profiles"
        result = msprobe.perf_compare(profiles / "after_ascend_pt", profiles / "before_ascend_pt", top=3)
        self.check(result, "SLOWER", result.tables, Index="Computing Time")
        self.assertIn("Kernels", result.tables)
        self.assertEqual(result.records("Kernels")[0]["Kernel"], "[ TOTAL ]")
        self.assertIn("npu_fusion_attention_grad", result.first.text)

    def test_config_check(self):
        packs = EXAMPLE / "config_check"
        result = self.check(msprobe.config_check(packs / "npu.zip", packs / "gpu.zip"), "NOT THE SAME EXPERIMENT",
                            ["findings", "checks", "env", "pip", "dataset", "weights", "hyperparameters", "random"], check="env", errors=1)
        self.assertEqual(result.first.label, "hyperparameters")
        self.assertEqual(result.records("env")[0]["level"], "error")

    def test_nan_analyze(self):
        result = self.check(msprobe.nan_analyze(EXAMPLE / "overflow/dump/step0"), "FOUND", ["origins"], rank=0, op_name="Torch.mul.0.forward")
        self.assertIn("Torch.mul.0.forward", result.first.text)
        self.assertIn("made", result.first.details)

    def test_monitor_diff(self):
        runs = self.folder.parent / "runs"
        monitor_data.Run(modules=5, steps=10, ranks=1, drift=(3, 7), poison=None).write(runs / "a")
        monitor_data.Run(modules=5, steps=10, ranks=1, drift=None, poison=None).write(runs / "b")
        result = msprobe.monitor.diff(runs / "a", runs / "b", statistics=["norm", "max"])
        self.check(result, result.verdict, ["monitor diff"], table="actv", statistic="norm")
        self.assertRegex(result.first.text, r"step [78]\b")
        self.assertIsNone(msprobe.monitor.diff(runs / "a", runs / "a").first)

    @needs_pages
    def test_graph(self):
        result = msprobe.graph(NPU, BENCH)
        self.check(result, "DIFFERENT", ["graph"])
        self.assertEqual(result.first.text, "blocks.0.mlp.fc1 (Linear)")
        self.assertIn("<html", result.to_html())
        self.assertEqual(msprobe.graph(NPU).verdict, "BUILT")

    def test_recheck(self):
        result = self.check(msprobe.recheck(DATA / "recheck/npu", DATA / "recheck/bench"), "WRONG", ["recheck"],
                            Call="Functional.linear.0.forward", Elements=32)
        self.assertEqual(result.first.text, "Functional.gelu.0.forward")
        self.assertIsInstance(result.records()[0]["Ratio"], float)
        self.assertEqual(len(msprobe.recheck(DATA / "recheck/npu", calls=["gelu"]).records()), 2)

    def test_show(self):
        result = self.check(msprobe.show(NPU / "step0/rank/dump.json"), "READABLE", ["show"], Type="torch.int64", Shape="[2, 8]")
        self.assertEqual(len(result.records()), 164)
        self.assertEqual(len(msprobe.show(NPU / "step0/rank/dump.json", filter="*fc1*", limit=2).records()), 2)
        of_name = msprobe.show(NPU / "step0/rank/dump.json", "attn.qkv").records()
        self.assertTrue(0 < len(of_name) < 164)
        self.assertTrue(all("attn.qkv" in row["Name"] for row in of_name))
        self.assertEqual(msprobe.show(NPU, "attn.qkv").records(), of_name)

    def test_grad_compare(self):
        runs = DATA / "grad_probe/compare"
        result = self.check(msprobe.grad_compare(runs / "a", runs / "b"), "DIVERGED", ["rank0"], step="e.weight")
        self.assertEqual(result.first.text, "b.0.qkv.bias")

    def test_rl_compare(self):
        runs = DATA / "rl_compare/rl_collect"
        result = msprobe.rl_compare(runs / "run_a", runs / "run_b", lang="en")
        self.check(result, "DIFFERENT", ["d", "log_prob", "pair", "prompt", "reward"], step=0)

    def test_response_anomaly(self):
        toy = DATA / "response_anomaly/toy"
        self.check(msprobe.response_anomaly(toy / "requests.jsonl", models=toy / "mtype_config.json", categories=toy / "token2category"),
                   "ILL", ["response_anomaly"], line=1)


class Tables(Case):
    def test_without_pandas_rows_are_dicts(self):
        with self.without_pandas():
            rows = msprobe.compare(NPU, BENCH).rows()
        self.assertIsInstance(rows, list)
        self.assertIsInstance(rows[0], dict)

    def test_with_pandas_rows_are_a_frame(self):
        module = types.ModuleType("pandas")
        module.DataFrame = lambda records: ("frame", records)
        with mock.patch.dict(sys.modules, pandas=module):
            kind, rows = msprobe.compare(NPU, BENCH).rows()
        self.assertEqual((kind, len(rows)), ("frame", 164))

    def test_a_frame_of_the_real_pandas_has_the_columns_of_the_file(self):
        try:
            import pandas
        except ImportError:
            self.skipTest("pandas is not installed (tools/install_dependencies.sh test)")
        frame = msprobe.compare(NPU, BENCH).rows()
        self.assertIsInstance(frame, pandas.DataFrame)
        self.assertEqual(frame.shape[0], 164)
        self.assertGreater(frame["MaxAbsErr"].max(), 0)

    def test_an_unknown_or_ambiguous_table_is_a_value_error_that_lists_them(self):
        profiles = EXAMPLE / "profiles"
        result = msprobe.perf_compare(profiles / "after_ascend_pt", profiles / "before_ascend_pt")
        self.assertRaisesRegex(ValueError, "no table 'nope'; there are: .*Kernels", result.rows, "nope")
        result._spec = dataclasses.replace(result._spec, default_table=None)
        self.assertRaisesRegex(ValueError, "different columns; name one of: .*Kernels", result.rows)

    def test_tables_of_equal_columns_are_put_together(self):
        for side, source in (("a", NPU), ("b", BENCH)):
            for rank in range(2):
                shutil.copytree(source / "step0/rank", self.folder / side / "step0" / ("rank%d" % rank))
        records = msprobe.compare("a", "b").records()
        self.assertEqual(len(records), 2 * 164)
        self.assertEqual(len({record["Table"] for record in records}), 2)

    @needs_pages
    def test_with_an_output_the_files_stay_and_hold_the_rows(self):
        result = msprobe.compare(NPU, BENCH, output="result", format=["json", "html"])
        self.assertTrue(all(path.is_file() for path in result.files))
        self.assertEqual({path.suffix for path in result.files}, {".jsonl", ".html", ".txt", ".json"})
        with mock.patch("subprocess.run", side_effect=AssertionError("started again")):
            self.assertEqual(len(result.records()), 164)
            self.assertIn("<html", result.to_html())

    @needs_pages
    def test_rows_and_pages_that_were_not_written_are_made_when_asked_for(self):
        result = msprobe.compare(NPU, BENCH, output="result", format="xlsx", fail_on="different", junit="tests.xml")
        self.assertEqual(result.exit_code, 1)
        names = sorted(path.name for path in self.folder.rglob("*"))
        self.assertEqual(len(result.records()), 164)
        self.assertIn("<html", result.to_html())
        self.assertEqual(sorted(path.name for path in self.folder.rglob("*")), names)

    def test_a_result_outlives_what_it_was_made_from(self):
        shutil.copytree(NPU, "a")
        shutil.copytree(BENCH, "b")
        result = msprobe.compare("a", "b")
        shutil.rmtree("a")
        shutil.rmtree("b")
        self.assertEqual(len(result.records()), 164)

    @needs_pages
    def test_a_result_without_tables_gives_its_statements(self):
        records = msprobe.graph(NPU).records()
        self.assertEqual(records[0]["label"], "step 0 rank 0")

    def test_markup_in_names_is_text_in_a_notebook(self):
        shutil.copytree(NPU, "<b>npu&")
        shown = msprobe.show("<b>npu&")._repr_html_()
        self.assertIn("&lt;b&gt;npu&amp;", shown)
        self.assertNotIn("<b>npu", shown)

    def test_a_notebook_shows_the_beginning_of_a_long_table(self):
        table = {"kind": "table", "columns": ["N"], "rows": [[number] for number in range(300)]}
        result = msprobe.Result(msprobe._results.Command(("show",)), None, (), {"sections": [{"blocks": [table]}]})
        self.assertIn("<td>199</td>", result._repr_html_())
        self.assertNotIn("<td>200</td>", result._repr_html_())
        self.assertIn("100 more rows", result._repr_html_())


class Errors(Case):
    def failure(self, kind, function, *arguments, **flags):
        with self.assertRaises(kind) as caught:
            function(*arguments, **flags)
        self.assertIsInstance(caught.exception, msprobe.MsprobeError)
        return caught.exception

    def test_a_missing_input_is_an_input_error(self):
        error = self.failure(msprobe.InputError, msprobe.ckpt_compare, "nope", CHECKPOINTS[0])
        self.assertIn("nope", error.message)
        self.assertNotIn("error:", error.message)
        self.assertEqual(error.exit_code, 3)
        self.assertIn("ckpt_compare", error.command)

    def test_messages_of_any_language_are_read(self):
        Path("here").mkdir()
        with mock.patch.dict(os.environ, LC_ALL="zh_CN.UTF-8"):
            error = self.failure(msprobe.InputError, msprobe.ckpt_compare, "hero", CHECKPOINTS[0])
        self.assertTrue(error.message.startswith("hero"), error.message)
        self.assertIn("here", error.hint)
        texts = json.loads((REPOSITORY / "config/texts.json").read_text("utf-8"))
        for openings in (msprobe._results._ERRORS, msprobe._results._HINTS):
            self.assertEqual(texts[openings[0].strip()], openings[1])

    def test_a_wrong_flag_is_a_usage_error_with_its_hint(self):
        error = self.failure(msprobe.UsageError, msprobe.compare, NPU, BENCH, mode="nope")
        self.assertIn("--mode", error.message)
        self.assertIn("--help", error.hint)
        self.assertIn(error.hint, str(error))
        self.assertEqual(error.exit_code, 2)
        self.assertRaises(TypeError, msprobe.compare, NPU, BENCH, no_such_flag=1)

    def test_an_unreadable_file_that_has_an_answer_is_an_input_error_all_the_same(self):
        Path("broken.npy").write_bytes(b"\x93NUMPY\x01\x00")
        self.assertEqual(self.failure(msprobe.InputError, msprobe.show, "broken.npy").exit_code, 3)

    def test_an_existing_result_is_not_replaced_without_force(self):
        msprobe.ckpt_compare(*CHECKPOINTS, output="similarity.json")
        self.assertIn("similarity.json", str(self.failure(msprobe.MsprobeError, msprobe.ckpt_compare, *CHECKPOINTS, output="similarity.json")))
        msprobe.ckpt_compare(*CHECKPOINTS, output="similarity.json", force=True)

    def test_a_missing_program_says_where_it_was_looked_for(self):
        with mock.patch.dict(os.environ, MSPROBE="/nowhere/msprobe"):
            self.assertIn("/nowhere/msprobe", self.failure(msprobe.MsprobeError, msprobe.show, NPU).message)

    def test_a_program_named_by_a_relative_path_is_that_file(self):
        for place, answer in ((Path("msprobe"), "here"), (Path("bin/msprobe"), "on PATH")):
            place.parent.mkdir(exist_ok=True)
            place.write_text("#!/bin/sh\necho %s >&2; exit 7\n" % answer)
            place.chmod(0o755)
        with mock.patch.dict(os.environ, MSPROBE="msprobe", PATH="%s:%s" % (Path("bin").absolute(), os.environ["PATH"])):
            self.assertEqual(self.failure(msprobe.MsprobeError, msprobe.show, NPU).message, "here")

    def test_a_program_that_breaks_down_is_an_error_with_its_code(self):
        program = self.folder / "program"
        for script, code, text in (("kill -9 $$", -9, "ended with -9"), ("echo nonsense", 0, "ended with 0"), ("echo oops >&2; exit 7", 7, "oops")):
            program.write_text("#!/bin/sh\n%s\n" % script)
            program.chmod(0o755)
            with mock.patch.dict(os.environ, MSPROBE=str(program)):
                error = self.failure(msprobe.MsprobeError, msprobe.compare, NPU, BENCH)
            self.assertEqual((error.exit_code, text in error.message), (code, True), error)

    def test_a_failed_gate_is_an_answer(self):
        result = msprobe.compare(NPU, BENCH, fail_on=["drift", "different"])
        self.assertEqual((result.exit_code, result.verdict), (1, "DIFFERENT"))


class Paths(Case):
    def test_names_with_dashes_blanks_quotes_and_letters_of_any_script(self):
        for name in ("-o", "--json", "a b", "模型 ü", "it's \"it\"", "a=b,c", "$HOME;x", "new\nline"):
            with self.subTest(name=name):
                shutil.copytree(NPU, name)
                result = msprobe.compare(name, BENCH, output="-out " + name)
                self.assertEqual((result.verdict, len(result.records())), ("DIFFERENT", 164))
                self.assertTrue(any(Path("-out " + name).iterdir()))

    def test_paths_of_any_kind_are_taken(self):
        self.assertEqual(msprobe.show(str(NPU)).records(), msprobe.show(NPU).records())

    def test_what_is_no_path_is_refused_before_anything_starts(self):
        for arguments in ((None,), (3,), (b"x\0y".decode(),)):
            self.assertRaises((TypeError, msprobe.UsageError), msprobe.show, *arguments)


class Package(Case):
    def run_python(self, code, **environment):
        return subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True,
                              env=dict(os.environ, **environment)).stdout

    def test_importing_the_package_loads_nothing(self):
        code = ("import sys; before = set(sys.modules); import msprobe; import json; "
                "print([n for n in sys.modules if n.startswith('msprobe')], 'subprocess' in sys.modules, 'numpy' in sys.modules)")
        self.assertEqual(self.run_python(code).strip(), "['msprobe'] False False")

    def test_the_version_is_the_program_s(self):
        told = subprocess.run([os.environ["MSPROBE"], "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
        self.assertEqual(told.split()[1], msprobe.__version__)

    def test_all_names_are_there_and_no_others(self):
        for name in msprobe.__all__:
            self.assertIsNotNone(getattr(msprobe, name))
            self.assertIn(name, dir(msprobe))
        self.assertRaisesRegex(AttributeError, "no attribute 'nope'", getattr, msprobe, "nope")

    def test_every_function_says_what_it_takes_and_gives(self):
        for name in msprobe.__all__:
            function = getattr(msprobe, name)
            if isinstance(function, types.FunctionType):
                self.assertIn("Raises", function.__doc__, name)
                self.assertIn("return", function.__annotations__, name)

    def test_a_killed_process_leaves_nothing(self):
        """Rows are in a file without a name."""
        code = ("import msprobe, os, time; r = msprobe.compare(%r, %r); print('made', flush=True); time.sleep(60)" % (str(NPU), str(BENCH)))
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.assertEqual(process.stdout.readline().strip(), "made")
        process.send_signal(signal.SIGKILL)
        process.wait()

    def test_many_results_hold_one_file_each(self):
        before = len(os.listdir("/proc/self/fd"))
        kept = [msprobe.recheck(DATA / "recheck/npu", calls="gelu") for _ in range(5)]
        self.assertLessEqual(len(os.listdir("/proc/self/fd")) - before, len(kept))
        del kept
        self.assertEqual(len(os.listdir("/proc/self/fd")), before)


if __name__ == "__main__":
    unittest.main()
