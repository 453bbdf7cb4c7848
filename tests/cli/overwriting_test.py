#!/usr/bin/env python3
"""One rule of overwriting for every command: what exists is never replaced without --force, runs of one second get names of their
own, and only regular files are ever written.

usage: overwriting_test.py MSPROBE REPOSITORY

COMMANDS is the table: a command, how it is told where to write, and whether its results have names of their own per run.
"""
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from page_tests import has_pages

MSPROBE, REPOSITORY = None, None
AT_ONCE = 4


class Command:
    def __init__(self, name, arguments, output, stamped=False, files=(), force=True, script=()):
        self.name, self.arguments, self.output = name, arguments, output
        self.stamped = stamped  # results of many runs stand beside each other
        self.files = files  # flags that name one file each, beyond `output`
        self.force = force
        self.script = ["--", *script] if script else []

    def call(self, output, *more):
        return [str(MSPROBE)] + self.arguments + [self.output, output] + list(more) + self.script


def commands():
    data, example = REPOSITORY / "tests/data", REPOSITORY / "docs/example"
    dumps = [str(example / "npu"), str(example / "bench")]
    perf = ["-d", str(data / "perf/match_quirk_0/comparison.json"), "-bp", str(data / "perf/match_quirk_0/base.json")]
    tables = str(data / "monitor/files/csv2tb/monitor_output")
    checkpoints = [str(data / "ckpt/special_base/a"), str(data / "ckpt/special_base/b")]
    accuracy = [str(data / "accuracy/precision_compare" / (side + ".csv")) for side in ("npu", "gpu")]
    packs = [str(example / "config_check/gpu.zip"), str(example / "config_check/npu.zip")]
    every = [
        Command("compare", ["compare"] + dumps + ["-q"], "-o", stamped=True, files=("--junit",)),
        Command("compare 26.x", ["compare", "-tp", dumps[0], "-gp", dumps[1], "-q"], "-o", stamped=True, files=("--junit",)),
        Command("perf_compare", ["perf_compare"] + perf + ["-q"], "-o", stamped=True, files=("--junit",)),
        Command("nan_analyze", ["nan_analyze", "-i", str(data / "nan_analyze/p2p_chain/step0"), "-q"], "-o", stamped=True),
        Command("api_precision_compare", ["api_precision_compare"] + accuracy + ["-q"], "-o", stamped=True, files=("--junit",)),
        Command("acc_check", ["acc_check", str(data / "accuracy/not_run"), "-q"], "-o", stamped=True, files=("--junit",)),
        Command("multi_acc_check", ["multi_acc_check", str(data / "accuracy/not_run"), "-q"], "-o", stamped=True, files=("--junit",)),
        Command("multi_run_ut", ["multi_run_ut", str(data / "accuracy/not_run"), "-q"], "-o", stamped=True, files=("--junit",)),
        Command("run_ut", ["run_ut", str(data / "accuracy/not_run"), "-q"], "-o", stamped=True, files=("--junit",)),
        Command("merge_result", ["merge_result", "-i", "ranks", "-config", "merge.yaml", "-q"], "-o", stamped=True),
        Command("ckpt_compare", ["ckpt_compare"] + checkpoints + ["-q", "--format", "csv,xlsx,json"], "-o", files=("--unmatched",)),
        Command("digest", ["digest", checkpoints[0], "-q"], "-o"),
        Command("config_check -d", ["config_check", "-q", "-d", "train.sh"], "-o"),
        Command("config_check -c", ["config_check", "-q", "-c"] + packs, "-o"),
        Command("config_check -c of checkpoints", ["config_check", "-q", "-c"] + checkpoints, "-o"),
        Command("config_check -vc", ["config_check", "-q", "-vc", "npu.log", "gpu.txt"], "-o"),
        Command("grad_compare", ["grad_compare", str(data / "grad_probe/compare/a"), str(data / "grad_probe/compare/b"), "-q"], "-o",
                files=("--junit",)),
        Command("graph", ["graph"] + [folder + "/step0" for folder in dumps] + ["-q", "--format", "vis,db,explorer,trace"], "-o", stamped=True,
                files=("--junit",)),
        Command("bisect", ["bisect", "--by", "settings", "--good", str(REPOSITORY / "docs/example/bisect/good.json"), "--bad",
                           str(REPOSITORY / "docs/example/bisect/bad.json"), "--check", "grep -q 0.05", "--repeats", "0", "-q", "--format", "csv,html"],
                "-o", files=("--junit",), script=("cat", "{config}")),
        Command("hang", ["hang", str(REPOSITORY / "docs/example/hang"), "-q", "--format", "csv,html"], "-o", files=("--junit",)),
        Command("recheck", ["recheck", str(data / "recheck/npu"), "-q", "--format", "csv,xlsx"], "-o", stamped=True, files=("--junit",)),
        Command("repro", ["repro", str(data / "recheck/npu"), "Functional.gelu.0", "-q"], "-o"),
        Command("response_anomaly", ["response_anomaly", str(data / "response_anomaly/toy/requests.jsonl"), "-q", "--format", "csv,jsonl"],
                "-o"),
        Command("gen_model_config", ["gen_model_config", "--model-path", "model", "-q"], "-o"),
        Command("code_mapping", ["code_mapping", str(data / "kernel_dump/code_mapping/dump"), "--ir", str(data / "kernel_dump/code_mapping/ir.txt"), "-q"],
                "-o", stamped=True),
        Command("msaccucmp compare", ["msaccucmp", "compare", "-m", str(data / "kernel_dump/nano/mine/Add.net_Add_1.1.1.1700000000001001"), "-g",
                                      str(data / "kernel_dump/nano/golden/Add.net_Add_1.1.1.1700000000001001"), "-q"], "-out", stamped=True,
                files=("--junit",)),
        Command("msaccucmp convert", ["msaccucmp", "convert", "-d", str(data / "kernel_dump/dumps"), "-q"], "-out"),
        Command("parse", ["parse", str(data / "kernel_dump/dumps"), "-t", "npy", "--index", "-q"], "-o"),
        Command("rl_compare", ["rl_compare", "-a", str(data / "rl_compare/rl_collect/run_a"), "-b",
                               str(data / "rl_compare/rl_collect/run_b"), "-q"], "-o"),
        Command("show", ["show", dumps[0], "-q"], "-o"),
        Command("data2db", ["data2db", "--data", dumps[0], "-q"], "--db"),
        Command("monitor csv2db", ["monitor", "csv2db", "--data", tables, "-q"], "--db"),
        Command("monitor csv2tb", ["monitor", "csv2tb", "--monitor_path", tables, "-q"], "-o"),
        Command("monitor analyse", ["monitor", "analyse", "-q", "-d",
                                    str(data / "monitor/files/anomaly_analyse/pp_order/anomaly_detected")], "-o"),
        Command("monitor report", ["monitor", "report", tables, "-q"], "-o"),
        Command("doctor", ["doctor", "-q"], "--bundle"),
    ]
    return every if has_pages(MSPROBE) else [command for command in every if command.name != "monitor report"]


# The ending of a result that is one file; of others -o names a folder.
ENDINGS = {"ckpt_compare": ".json", "digest": ".json", "config_check -d": ".zip", "config_check -c of checkpoints": ".json", "show": ".csv",
           "monitor report": ".html", "doctor": ".zip"}

LOG = """step:1 - training/global_step:1
{'actor_rollout_ref': {'actor': {'ppo_mini_batch_size': %d}}, 'trainer': {'total_epochs': 3}}
"""


def look(folder):
    """Every file below the folder: its identity and its bytes."""
    return {str(path.relative_to(folder)): (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
            for path in sorted(Path(folder).rglob("*")) if path.is_file() and not path.is_symlink()}


class Overwriting(unittest.TestCase):
    def setUp(self):
        self.before = os.getcwd()
        self.scratch = tempfile.TemporaryDirectory(prefix="msprobe_overwriting_")
        os.chdir(self.scratch.name)
        Path("train.sh").write_text("python train.py --lr 1e-3\n")
        for name, size in (("npu.log", 8), ("gpu.txt", 16)):
            Path(name).write_text(LOG % size)
        Path("model").mkdir()
        Path("model/vocab.json").write_text('{"a": 0}')
        Path("model/config.json").write_text('{"eos_token_id": 0}')
        Path("merge.yaml").write_text("api:\n  - Module\ncompare_index:\n  - Cosine\n")
        self.make_ranks()

    def tearDown(self):
        os.chdir(self.before)
        self.scratch.cleanup()

    def run_command(self, call, wanted=None):
        ended = subprocess.run(call, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120,
                               universal_newlines=True, check=False)
        if wanted is not None:
            self.assertEqual(ended.returncode, wanted, "%s: %s" % (" ".join(call), ended.stderr))
        return ended

    def make_ranks(self):
        """Two ranks' results for merge_result."""
        example = REPOSITORY / "docs/example"
        self.run_command([str(MSPROBE), "compare", str(example / "npu"), str(example / "bench"), "-o", "one", "-q", "-c"], 0)
        os.mkdir("ranks")
        (result,) = Path("one").glob("compare_result_*.xlsx")
        for rank in range(2):
            shutil.copy(str(result), "ranks/compare_result_rank%d_20250101000000.xlsx" % rank)

    def test_every_command_that_writes_is_in_the_table(self):
        tables = json.loads(self.run_command([str(MSPROBE), "help", "--format", "json"], 0).stdout)
        known = {command["command"].split()[1] for command in tables["subcommands"]}
        covered = {command.arguments[0] for command in commands()}
        # Of these, dump is held by tests/python and by tests/unit/capture, overflow_check is nan_analyze, devices, completion and serve write nothing, help
        # writes man pages (tests/cli/flags_test.py); free_benchmark numbers its tables (tests/python/torch/free_benchmark_test.py),
        # compile_check, isolate and op_generate, which wants a folder that exists, are held by their transcripts in tests/cli.
        self.assertEqual(known - covered - {"dump", "free_benchmark", "compile_check", "isolate", "op_generate", "devices", "run_overflow_check", "graph_visualize", "overflow_check", "completion", "help", "serve", "install_deps", "offline_dump"}, set())

    def test_the_table_of_the_documents_says_the_same(self):
        text = (REPOSITORY / "docs/security.md").read_text(encoding="utf-8")
        rows = re.findall(r"^\| (`.*`) \| (.*) \|$", text[text.index("### Existing results"):].split("\n\n")[1], re.M)
        told = {name: meaning for names, meaning in rows for name in re.findall(r"`([^`]+)`", names)}
        for command in commands():
            with self.subTest(command.name):
                (name,) = [name for name in told if command.name == name or command.name.startswith(name + " ") and name in ("compare", "config_check")
                           or name.startswith(command.name + " --")]
                self.assertIn("The names hold the time" if command.stamped else "The command fails", told[name])

    def test_nothing_that_exists_is_replaced_without_force(self):
        for command in commands():
            if command.stamped:
                continue
            with self.subTest(command.name):
                out = "fixed_" + command.name.replace(" ", "_") + ENDINGS.get(command.name, "")
                self.run_command(command.call(out), 0)
                first = look(".")
                ended = self.run_command(command.call(out), 2)
                self.assertIn("--force", ended.stderr)
                self.assertEqual(look("."), first)
                self.run_command(command.call(out, "--force"), 0)
                again = look(".")
                changed = [name for name in first if name in again and again[name][:2] != first[name][:2]]
                self.assertTrue(changed or set(again) != set(first), "--force wrote nothing")

    def test_results_of_one_second_stand_beside_each_other(self):
        for command in commands():
            if not command.stamped:
                continue
            with self.subTest(command.name):
                out = "stamped_" + command.name.replace(" ", "_")
                self.run_command(command.call(out), 0)
                first = look(out)
                self.run_command(command.call(out), 0)
                second = look(out)
                self.assertEqual({name: second[name] for name in first}, first)
                self.assertEqual(len(second), 2 * len(first))
                running = [subprocess.Popen(command.call(out), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                            stderr=subprocess.STDOUT) for _ in range(AT_ONCE)]
                for process in running:
                    text = process.communicate(timeout=120)[0]
                    self.assertEqual(process.returncode, 0, text)
                self.assertEqual(len(look(out)), (2 + AT_ONCE) * len(first), sorted(look(out)))
                self.assertEqual([name for name in os.listdir(out) if name.startswith(".")], [])

    def test_a_summary_belongs_to_its_run(self):
        for command in commands()[:3]:
            with self.subTest(command.name):
                out = "summary_" + command.name.replace(" ", "_")
                self.run_command(command.call(out), 0)
                self.run_command(command.call(out), 0)
                tables = {path.name for path in Path(out).iterdir() if path.suffix in (".csv", ".xlsx")}
                (second,) = Path(out).glob("summary_*.json")
                stamp = second.stem[len("summary_"):]
                own = {name for name in tables if "_" + stamp in name}
                self.assertTrue(own and own < tables, (stamp, tables))
                for name in tables:
                    self.assertEqual(name in second.read_text(), name in own, name)
                    self.assertEqual(name in Path(out, "summary.json").read_text(), name not in own, name)

    def test_files_named_by_a_flag_are_refused_before_anything_is_written(self):
        for command in commands():
            for flag in command.files:
                with self.subTest(command.name + flag):
                    taken = Path("taken" + flag)
                    taken.write_text("mine")
                    out = "named_" + command.name.replace(" ", "_") + ENDINGS.get(command.name, "")
                    ended = self.run_command(command.call(out, flag, str(taken)), 2)
                    self.assertIn("--force", ended.stderr)
                    self.assertEqual(taken.read_text(), "mine")
                    self.assertFalse(Path(out).exists(), "something was written all the same")
                    self.run_command(command.call(out, flag, str(taken), "--force"), 0)
                    self.assertNotEqual(taken.read_text(), "mine")

    def special_files(self):
        """{what it is: path}; none of them may be replaced."""
        os.mkfifo("fifo")
        bound = socket.socket(socket.AF_UNIX)
        self.addCleanup(bound.close)
        bound.bind("socket")
        os.mkdir("folder")
        Path("target").write_text("mine")
        os.symlink("target", "link")
        os.symlink("nowhere", "dangling")
        special = {name: name for name in ("fifo", "socket", "folder", "link", "dangling")}
        try:
            os.mknod("device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
            special["device"] = "device"
        except OSError:
            pass  # needs root
        return special

    def test_only_regular_files_are_written(self):
        special = self.special_files()
        kinds = {path: (os.lstat(path).st_ino, stat.S_IFMT(os.lstat(path).st_mode)) for path in special}
        for command in commands():
            flags = list(command.files) + ([None] if command.name in ENDINGS else [])
            for flag in flags:
                for path in special:
                    with self.subTest("%s %s %s" % (command.name, flag, path)):
                        out = "special_" + command.name.replace(" ", "_") + ENDINGS.get(command.name, "")
                        name = path
                        if flag is None and command.name == "config_check -d":  # its name must end so
                            name = path + ".zip"
                            if not os.path.lexists(name):
                                os.rename(path, name)
                        try:
                            call = command.call(name, "--force") if flag is None else command.call(out, flag, name, "--force")
                            ended = self.run_command(call)
                            self.assertIn(ended.returncode, (2, 3), ended.stderr)
                            self.assertNotEqual(ended.stderr, "")
                        finally:
                            if name != path:
                                os.rename(name, path)
                        now = os.lstat(path)
                        self.assertEqual((now.st_ino, stat.S_IFMT(now.st_mode)), kinds[path])
        self.assertEqual(Path("target").read_text(), "mine")
        self.assertEqual(os.listdir("folder"), [])

    def test_a_folder_of_results_is_no_file_or_device(self):
        special = self.special_files()
        for command in commands():
            if command.name in ENDINGS:
                continue
            for path in set(special) - {"folder", "dangling"}:
                with self.subTest(command.name + " " + path):
                    ended = self.run_command(command.call(path, "--force"))
                    self.assertIn(ended.returncode, (2, 3), ended.stderr)
                    self.assertNotEqual(ended.stderr, "")
        self.assertEqual(Path("target").read_text(), "mine")

    def test_the_standard_output_is_streamed_by_show_and_refused_by_the_others(self):
        example = REPOSITORY / "docs/example"
        plain = self.run_command([str(MSPROBE), "show", str(example / "npu"), "--format", "csv"], 0).stdout
        for name in ("-", "/dev/stdout"):
            ended = self.run_command([str(MSPROBE), "show", str(example / "npu"), "--format", "csv", "-o", name], 0)
            self.assertEqual(ended.stdout, plain)
        for command in commands():
            if command.name == "show":
                continue
            with self.subTest(command.name):
                self.run_command(command.call("-"), 2)
        self.assertFalse(os.path.lexists("-"))


if __name__ == "__main__":
    MSPROBE, REPOSITORY = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
