#!/usr/bin/env python3
"""Every command that answers, in every form of an answer: on a terminal of 60 columns, in a pipe, without UTF-8, without
colours, as JSON and as a JUnit report. And the plan behind it: one place renders for terminals, one decides about --fail-on.

usage: answer_forms_test.py MSPROBE REPOSITORY [TEST...]
"""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unicodedata
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

from page_tests import has_pages
from terminals import run_on_terminal

MSPROBE = None
REPOSITORY = None
WIDTH = 60

# What is special about a command's answer:
ALWAYS = "always"  # --quiet leaves it: it is what the command is for
LAUNCH = "launch"  # it stands on the standard error, the other one belongs to a script
PICTURE = "picture"  # it fills the screen


class Command:
    """One command line. {data} is tests/data, {example} docs/example, {run} a monitored run that differs from {same} at one step, {nan_run} one with a NaN,
    {scratch} the folder it runs in."""

    def __init__(self, words, level=None, first=None, kind="", prepare=None):
        self.words = words
        self.level = level  # a word of --fail-on that holds; None: the command does not judge
        self.first = first  # what the answer begins with
        self.kind = kind
        self.prepare = prepare  # what its scratch folder needs


def interrupted(places, folder):
    shutil.copytree(places["data"] / "capture/interrupted", folder / "d")
    for path in (folder / "d").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def switch(places, folder):
    (folder / "c.json").write_text('{"dump_path": "d", "dump_enable": false}')


def op_configuration(places, folder):
    (folder / "scripts").mkdir()
    dump = places["data"] / "recheck/npu/step0/rank/dump.json"
    (folder / "op.json").write_text('{"dump_json_path": "%s", "api_name": "Functional.gelu.0", "extract_api_path": "gelu.json"}' % dump)


def model(places, folder):
    """The files of a language model; an .onnx file, and a Python that says that it has run it."""
    (folder / "toy").mkdir()
    (folder / "toy/tokenizer.json").write_text('{"model": {"vocab": {"hello": 0, "12": 1}}}')
    (folder / "toy/config.json").write_text('{"eos_token_id": 1}')
    (folder / "m.onnx").touch()
    (folder / "run/dump_data/onnx").mkdir(parents=True)
    (folder / "python").write_text("#!/bin/sh\necho '{\"folders\": [\"run\"], \"tensors\": 7}'\n")
    (folder / "python").chmod(0o755)


ISOLATED = "rank,step,module,class,call,direction,what,error,floor,factor,verdict,cause\r\n"
GUILTY_ROW = "0,0,fc1,Linear,Module.fc1.Linear.forward.0,forward,output 0,0.001,2e-06,500,guilty,parameter weight differs\r\n"
GOOD_ROW = "0,0,fc2,Linear,Module.fc2.Linear.forward.0,forward,output 0,0,2e-06,0,good,\r\n"
LEFT_OUT_ROW = "0,0,late,Linear,Module.late.Linear.forward.3,forward,,,,,not judged,the reference has no such call\r\n"


def isolation(places, folder, tables={"rank0/isolate.csv": GUILTY_ROW + GOOD_ROW}, ends="exit 0"):
    """A package that does nothing, and a script that leaves the tables of a step."""
    package(places, folder)
    for name, rows in tables.items():
        (folder / "made/step0" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "made/step0" / name).write_bytes((ISOLATED + rows).encode() if rows is not None else b"x,y\r\n")
    (folder / "script.sh").write_text("echo hello\nmkdir -p out\n[ ! -e made ] || cp -r made/step0 out/\n%s\n" % ends)


def package(places, folder):
    (folder / "py/msprobe/_inject").mkdir(parents=True)
    (folder / "py/msprobe/_inject/sitecustomize.py").touch()
    (folder / "twice.json").write_text('{"task": "free_benchmark"}')
    (folder / "watch.json").write_text('{"targets": {"": {"input": "tuple[1]:0"}}}')


CHECKED = ("graph,kernel,nodes,module,code,output,dtype,error,bound,verdict,reason\\r\\n"
           "0/0 forward,cpp_fused_gelu_0,mul,layers.0,model.py:12,buf1,float32,0.5,1e-06,wrong,\\r\\n")


def checked_graphs(places, folder):
    """A package that does nothing, and a script that leaves the table of a compiled graph."""
    package(places, folder)
    (folder / "script.sh").write_text("echo hello\nmkdir -p out\nprintf '%s' > out/compile_check.csv\n" % CHECKED)


COMMANDS = {
    "code_mapping": Command("code_mapping {data}/kernel_dump/code_mapping/dump --ir {data}/kernel_dump/code_mapping/ir.txt -o out", None, "MAPPED"),
    "compare": Command("compare {example}/npu {example}/bench -o out", "different", "DIFFERENT"),
    "acc_check": Command("acc_check {data}/accuracy/not_run/dump.json -o out", "skip", "NOTHING CHECKED"),
    "multi_acc_check": Command("multi_acc_check {data}/accuracy/not_run -o out", "skip", "NOTHING CHECKED"),
    "multi_run_ut": Command("multi_run_ut {data}/accuracy/not_run -o out", "skip", "NOTHING CHECKED"),
    "run_overflow_check": Command("run_overflow_check {data}/accuracy/not_run", "skip", "NOTHING CHECKED"),
    "run_ut": Command("run_ut {data}/accuracy/not_run -o out", "skip", "NOTHING CHECKED"),
    "api_precision_compare": Command("api_precision_compare {data}/accuracy/precision_compare/npu.csv "
                                     "{data}/accuracy/precision_compare/gpu.csv -o out", "error", "LESS ACCURATE"),
    "ckpt_compare": Command("ckpt_compare {data}/ckpt/single_vs_tp2pp2/a {data}/ckpt/single_vs_tp2pp2/b -o out/similarity.json",
                            "different", "DIFFERENT"),
    "gen_model_config": Command("gen_model_config --model-path toy -o out", None, "WRITTEN: toy", prepare=model),
    "install_deps": Command("install_deps -m offline", None, "COMPLETE"),
    "offline_dump": Command("offline_dump --model-path m.onnx --python ./python -o out", None, "DUMPED", prepare=model),
    "digest": Command("digest {data}/ckpt/single_vs_tp2pp2/a -o out/digest.json", None, "DIGESTED"),
    "compile_check": Command("compile_check -o out -- sh script.sh", "wrong", "WRONG", LAUNCH, checked_graphs),
    "config_check -c": Command("config_check -c {example}/config_check/gpu.zip {example}/config_check/npu.zip -o out", "error",
                               "NOT THE SAME EXPERIMENT"),
    "config_check -d": Command("config_check -d {example}/config_check/train.sh -o out/mine.zip", None, "COLLECTED"),
    "config_check -vc": Command("config_check -vc {example}/config_check/npu_train.log {example}/config_check/gpu_train.log -o out",
                                "error", "DIFFERENT SETTINGS"),
    "config_check -vv": Command("config_check -vv {example}/config_check/required.yaml {example}/config_check/npu_train.log -o out",
                                "error", None),
    "data2db": Command("data2db --data {same} --db out", None, "monitor_data.trend.db"),
    "devices": Command("devices", None, "READY", ALWAYS),
    "doctor": Command("doctor", "any", "BROKEN", ALWAYS),
    "dump": Command("dump --dump_path d -- echo hello", None, None, LAUNCH, package),
    "dump --check": Command("dump --check {repository}/config/dump_example.json", None, None),
    "dump ctl": Command("dump ctl on c.json", None, "ON", prepare=switch),
    "dump recover": Command("dump recover d", None, "RECOVERED", prepare=interrupted),
    "free_benchmark": Command("free_benchmark -c twice.json -o d -- echo hello", None, None, LAUNCH, package),
    "grad_compare": Command("grad_compare {data}/grad_probe/compare/a {data}/grad_probe/compare/b -o out", "diverged", "DIVERGED"),
    "graph": Command("graph {data}/graph/compare_shape_dtype_arity_zero/npu {data}/graph/compare_shape_dtype_arity_zero/bench -o out",
                     "error", "DIFFERENT"),
    "graph_visualize": Command("graph_visualize -tp {example}/npu/step0 -o out", None, "BUILT"),
    "bisect": Command("bisect --by settings --good {example}/bisect/good.json --bad {example}/bisect/bad.json --check grep${{IFS}}-q${{IFS}}0.05 --repeats 0 "
                      "-o out -- cat {{config}}", "culprit", "CULPRIT"),
    "hang": Command("hang {example}/hang -o out", "hang", "HANG"),
    "isolate": Command("isolate -r {example}/bench -o out -- sh script.sh", "guilty", "GUILTY", LAUNCH, isolation),
    "merge_result": Command("merge_result -i {data}/compare/pt_merge_statistics/results -o out "
                            "-config {data}/compare/pt_merge_statistics/config.yaml", None, "MERGED"),
    "monitor analyse": Command("monitor analyse -d {data}/monitor/files/anomaly_analyse/pp_order/anomaly_detected -o out", "alert", "Top"),
    "monitor csv2db": Command("monitor csv2db --data {same} --db out", None, "monitor_data.trend.db"),
    "monitor csv2tb": Command("monitor csv2tb --monitor_path {same} --output_dirpath out", None, None),
    "monitor diff": Command("monitor diff {same} {run}", "different", "DIFFERENT: the runs diverge"),
    "monitor replay": Command("monitor replay --feed {data}/monitor/replay/csv_edge_dtypes/feed "
                              "--config {data}/monitor/replay/csv_edge_dtypes/config.json --output out", None, None),
    "monitor report": Command("monitor report {nan_run} -o out/report.html", "not_finite", None),
    "monitor run": Command("monitor run -c watch.json -- echo hello", None, None, LAUNCH, package),
    "monitor top": Command("monitor top {same}", None, None, PICTURE),
    "nan_analyze": Command("nan_analyze -i {data}/nan_analyze/p2p_chain/step0 -o out", "origin", "FOUND"),
    "overflow_check": Command("overflow_check -i {data}/nan_analyze/p2p_chain/step0 -o out", "origin", "FOUND"),
    "msaccucmp compare": Command("msaccucmp compare -m {data}/kernel_dump/nano/mine/Add.net_Add_1.1.1.1700000000001001 "
                                 "-g {data}/kernel_dump/nano/golden/Add.net_Add_1.1.1.1700000000001001 -out out", "different", "DIFFERENT"),
    "msaccucmp compare -op": Command("msaccucmp compare -m {data}/kernel_dump/nano/mine -g {data}/kernel_dump/nano/golden -op net_Add_1 "
                                     "-out out", "different", "DIFFERENT"),
    "msaccucmp convert": Command("msaccucmp convert -d {data}/kernel_dump/dumps -out out", None, "CONVERTED"),
    "msaccucmp file_compare": Command("msaccucmp file_compare -m {data}/kernel_dump/nano/expected_arrays/Add.net_Add_1.1.1.1700000000001001.input.0.npy "
                                      "-g {data}/kernel_dump/nano/expected_arrays/Add.net_Add_1.1.1.1700000000001001.input.1.npy -out out",
                                      "different", "DIFFERENT"),
    "msaccucmp overflow": Command("msaccucmp overflow -d {data}/kernel_dump/dumps -out out", "overflow", "OVERFLOW"),
    "op_generate": Command("op_generate -i op.json -o scripts", None, "WRITTEN", prepare=op_configuration),
    "parse": Command("parse {data}/kernel_dump/dumps -o out", None, "CONVERTED"),
    "parse overflow": Command("parse overflow {data}/kernel_dump/dumps -o out", "overflow", "OVERFLOW"),
    "perf_compare": Command("perf_compare -d {data}/perf/npu_npu_all/comparison_ascend_pt -bp {data}/perf/npu_npu_all/base_ascend_pt "
                            "-o out", "e2e>0.001%", None),
    "recheck": Command("recheck {data}/recheck/npu {data}/recheck/bench -o out", "beyond", "WRONG"),
    "repro": Command("repro {data}/recheck/npu Functional.gelu.0 --minimise -o out", None, "WRITTEN"),
    "response_anomaly": Command("response_anomaly {data}/response_anomaly/toy/requests.jsonl -o out", "ill", "ILL"),
    "rl_compare": Command("rl_compare -a {data}/rl_compare/rl_collect/run_a -b {data}/rl_compare/rl_collect/run_b -o out", "different",
                          "DIFFERENT"),
    "show": Command("show {example}/npu/step0/rank/dump.json", None, None, ALWAYS),
    "show FOLDER": Command("show {example}/npu", None, None, ALWAYS),
}


def columns(line):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def squeezed(text):
    return re.sub(r"\s", "", text)


def files_of(folder):
    return {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}


class Forms(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="msprobe_answer_")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        same = REPOSITORY / "tests/data/monitor/files/csv2tb/monitor_output"
        run = self.folder / "run"
        shutil.copytree(same, run)
        for file in run.glob("*/actv_6-8.csv"):
            os.chmod(file, 0o644)
            file.write_text(re.sub(r"^0,0.norm1.output,6,0,8", "0,0.norm1.output,6,0,9", file.read_text(), flags=re.M))
        nan_run = self.folder / "nan_run"
        shutil.copytree(run, nan_run)
        for file in nan_run.glob("*/actv_6-8.csv"):
            file.write_text(re.sub(r"^(0,0.norm1.output,6,0),[^,]*", r"\1,nan", file.read_text(), flags=re.M))
        self.places = {"data": REPOSITORY / "tests/data", "example": REPOSITORY / "docs/example", "same": same, "run": run, "nan_run": nan_run,
                       "repository": REPOSITORY}
        self.runs = 0

    def words(self, name, *more):
        # What is behind -- belongs to a script.
        words, dashes, script = COMMANDS[name].words.format(**self.places).partition(" -- ")
        return [MSPROBE] + words.split() + list(more) + (["--"] + script.split() if dashes else [])

    def environment(self, **more):
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("MSPROBE_", "LC_", "LANG", "NO_COLOR"))}
        kept.update(TERM="xterm", LC_ALL="C.UTF-8", MSPROBE_PYTHON_PATH="py")
        kept.update(more)
        return kept

    def scratch(self, name):
        """An empty folder with an `out` that every command can write into."""
        self.runs += 1
        folder = self.folder / ("scratch%d" % self.runs)
        (folder / "out").mkdir(parents=True)
        if COMMANDS[name].prepare:
            COMMANDS[name].prepare(self.places, folder)
        self.before = files_of(folder)
        return folder

    def piped(self, name, *more, **environment):
        folder = self.scratch(name)
        done = subprocess.run(self.words(name, *more), cwd=folder, env=self.environment(**environment), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
        return done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8"), folder

    def on_terminal(self, name, *more, **environment):
        """What a terminal of WIDTH columns gets on the standard output."""
        status, text = run_on_terminal(self.words(name, *more), columns=WIDTH, cwd=self.scratch(name), env=self.environment(**environment),
                                       stderr=subprocess.DEVNULL)
        self.assertEqual(status, 0)
        return text

    def each(self, check, of=lambda command: command.kind in ("", ALWAYS)):
        checked = 0
        for name, command in COMMANDS.items():
            if of(command) and not (name == "monitor report" and not has_pages(MSPROBE)):
                with self.subTest(command=name):
                    check(name)
                    checked += 1
        self.assertGreater(checked, 1)


class AnswerForms(Forms):
    def test_all_commands_are_here(self):
        def listed(*words):
            tables = subprocess.run([MSPROBE, "help", *words, "--format", "json"], stdout=subprocess.PIPE, check=True, timeout=60).stdout
            return [command["command"].split()[-1] for command in json.loads(tables)["subcommands"]]
        commands = [name for name in listed() if name != "monitor"] + ["monitor " + name for name in listed("monitor")]
        self.assertGreater(len(commands), 15)
        held = [command.words for command in COMMANDS.values()]
        commands = [name for name in commands if name not in ("completion", "help", "serve")]  # these answer nothing
        self.assertEqual([name for name in commands if not any(words.startswith(name + " ") or words == name for words in held)], [])

    def test_a_pipe_gets_the_verdict_first_and_nothing_cut(self):
        def check(name):
            code, text, errors, folder = self.piped(name)
            self.assertEqual(code, 0, errors)
            if COMMANDS[name].first:
                self.assertTrue(text.startswith(COMMANDS[name].first), text.splitlines()[0])
            self.assertNotIn("…", text)
            self.assertNotIn("\x1b", text)
        self.each(check)

    def test_a_terminal_of_60_columns_wraps_and_loses_nothing(self):
        def check(name):
            text = self.on_terminal(name, NO_COLOR="1")
            self.assertNotIn("\x1b", text)
            self.assertNotIn("…", text)
            files = text.split("\nFiles", 1)[-1] if "\nFiles" in text else ""
            for line in text[:len(text) - len(files)].splitlines():
                self.assertLessEqual(columns(line), WIDTH, line)
            _, whole, _, _ = self.piped(name)
            verdict = whole.splitlines()[0]
            self.assertTrue(squeezed(text).startswith(squeezed(verdict)), text.splitlines()[:3])
        self.each(check)

    def test_width_is_a_flag_too(self):
        def check(name):
            _, text, _, _ = self.piped(name, "--width", str(WIDTH))
            body = re.sub(r"\n\+-.*", "", text.split("\nFiles", 1)[0], flags=re.S)
            for line in body.splitlines():
                self.assertLessEqual(columns(line), WIDTH, line)
        self.each(check)

    def test_colours_are_for_terminals_and_explained(self):
        def check(name):
            text = self.on_terminal(name)
            self.assertIn("\x1b[", text)
            if "\x1b[1;31m" in text or "\x1b[1;33m" in text:
                self.assertIn("red: a difference or a failure; yellow: worth a look", text)
            _, always, _, _ = self.piped(name, "--color", "always", NO_COLOR="1")
            self.assertIn("\x1b[", always)
            self.assertNotIn("\x1b", self.on_terminal(name, "--color", "never"))
        self.each(check)

    def test_without_utf8_the_marks_are_ascii(self):
        def check(name):
            for text in (self.piped(name, LC_ALL="C")[1], self.on_terminal(name, LC_ALL="C", NO_COLOR="1")):
                self.assertEqual([c for c in text if ord(c) > 127], [])
        self.each(check)

    def parsed(self, text):
        return json.loads(text, parse_constant=lambda word: self.fail("%s is not JSON" % word))

    def test_json_is_the_answer_and_nothing_else(self):
        def check(name):
            code, out, errors, folder = self.piped(name, "--json")
            answer = self.parsed(out)
            self.assertEqual(code, 0, errors)
            self.assertEqual(answer["exit_code"], 0)
            self.assertEqual(answer["tool"], "msprobe")
            self.assertTrue(COMMANDS[name].words.startswith(answer["command"]), answer["command"])
            self.assertRegex(answer["verdict"]["word"], r"^[A-Z][A-Z -]+$")
            nothing = str(COMMANDS[name].first).startswith("NOTHING")
            self.assertIn(answer["verdict"]["standing"], ("nothing_compared",) if nothing else ("clean", "findings"))
            for file in answer["files"]:
                self.assertTrue((folder / file).exists(), file)
            if COMMANDS[name].kind in ("", ALWAYS):
                _, text, _, _ = self.piped(name)
                self.assertEqual(answer["verdict"]["text"], text.splitlines()[0])
            _, quiet, _, _ = self.piped(name, "--json", "-q")
            self.assertEqual(self.parsed(quiet)["verdict"], answer["verdict"])
        self.each(check, of=lambda command: True)

    def test_the_exit_code_is_the_same_in_all_forms(self):
        def check(name):
            level = COMMANDS[name].level
            gate = ("--fail-on", level) if level else ()
            expected = 1 if level else 0
            for form in ((), ("--json",), ("-q",), ("--width", "60"), ("--color", "always")) + ((("--junit", "r.xml"),) if level else ()):
                code, out, errors, _ = self.piped(name, *gate, *form)
                self.assertEqual(code, expected, (form, errors))
                if form == ("--json",):
                    answer = self.parsed(out)
                    self.assertEqual(answer["exit_code"], expected)
                    self.assertEqual([item["found"] for item in answer["levels"] if item["word"] == level], [True] if level else [])
        self.each(check, of=lambda command: True)

    def test_every_file_that_was_written_is_named(self):
        def check(name):
            junit = ("--junit", "report.xml") if COMMANDS[name].level else ()
            _, out, _, folder = self.piped(name, "--json", *junit)
            named = [str((folder / file).resolve()) for file in json.loads(out)["files"]]
            for path in sorted(files_of(folder) - self.before):
                path = str(folder / path)
                self.assertTrue(any(path == item or path.startswith(item + "/") for item in named), "%s is not among %s" % (path, named))
            _, text, _, folder = self.piped(name, *junit)
            for path in sorted(files_of(folder) - self.before):
                holders = [str(path), str(folder / path)] + [str(parent) + "/" for parent in (folder / path).parents]
                holders += [str(parent) + "/" for parent in path.parents]
                self.assertTrue(any("\n  %s\n" % item in text for item in holders), "%s: %s" % (path, text))
        self.each(check)

    def test_the_junit_report_tells_the_same(self):
        def check(name):
            code, _, errors, folder = self.piped(name, "--junit", "report.xml", "--fail-on", COMMANDS[name].level)
            self.assertEqual(code, 1, errors)
            suites = xml.parse(folder / "report.xml").getroot()
            self.assertEqual(suites.tag, "testsuites")
            cases = suites.findall(".//testcase")
            self.assertEqual(int(suites.get("tests")), len(cases))
            failures = [case for case in cases if case.find("failure") is not None]
            self.assertEqual(int(suites.get("failures")), len(failures))
            self.assertTrue(failures)
        self.each(check, of=lambda command: command.level)

    def test_quiet_says_nothing(self):
        def check(name):
            code, text, errors, _ = self.piped(name, "-q")
            self.assertEqual((code, text), (0, ""), errors)
        self.each(check, of=lambda command: command.kind == "")

    def test_a_word_that_fail_on_does_not_know_is_a_usage_error(self):
        def check(name):
            code, text, errors, folder = self.piped(name, "--fail-on", "nonsense")
            self.assertEqual((code, text), (2, ""), errors)
            self.assertIn("nonsense", errors)
        self.each(check, of=lambda command: command.level)

    def test_a_script_writes_to_the_standard_error_where_the_answer_is_json(self):
        def check(name):
            _, text, errors, _ = self.piped(name)
            self.assertIn("hello", text)
            _, text, errors, _ = self.piped(name, "--json")
            answer = json.loads(text)
            self.assertIn("msprobe", answer.pop("command_line"))
            self.assertNotIn("hello", json.dumps(answer))
            self.assertIn("hello", errors)
        self.each(check, of=lambda command: command.kind == LAUNCH)


class Gates(Forms):
    """Exit code, JSON, JUnit report, screen and standard error of one run never disagree, whatever --fail-on asks about."""

    def held(self, words, folder, level):
        """Runs `words` with the gate in three forms, checks that they tell the same, returns (exit code, JSON)."""
        gate, dashes, script = list(words), [], []
        if "--" in gate:
            dashes, script = ["--"], gate[gate.index("--") + 1:]
            gate = gate[:gate.index("--")]
        junit = folder / "gate.xml"

        def run(*form):
            shutil.rmtree(folder / "out", ignore_errors=True)
            junit.unlink(missing_ok=True)
            (folder / "out").mkdir()
            done = subprocess.run(gate + ["--fail-on", level, *form] + dashes + script, cwd=folder, env=self.environment(), stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
            return done.returncode, done.stdout.decode(), done.stderr.decode()

        code, text, errors = run("--json", "--junit", str(junit))
        self.assertIn(code, (0, 1, 3), errors)
        script_says = "hello\n" if dashes and "bisect" not in gate else ""  # bisect keeps what its runs print
        suites = xml.parse(junit).getroot()
        failed = int(suites.get("failures")), int(suites.get("errors"))
        told = suites.findall(".//failure") + suites.findall(".//error")
        self.assertEqual(len(told), sum(failed))
        self.assertTrue(all(item.get("message") for item in told))
        self.assertEqual(sum(failed) > 0, code != 0, (level, code, failed))
        self.assertEqual(failed[1] > 0, code == 3, (level, code, failed))
        answer = json.loads(text) if text else None
        if answer:
            found = {item["word"]: item["found"] for item in answer["levels"]}
            self.assertEqual(answer["exit_code"], code)
            self.assertEqual(code == 3, answer["verdict"]["standing"] == "incomplete")
            if code == 0:
                self.assertFalse(found[level], (level, found))
                self.assertNotEqual(answer["verdict"]["standing"], "nothing_compared")
            elif code == 1:
                self.assertTrue(any(found.values()) or answer["verdict"]["standing"] == "nothing_compared", (level, found))
            if answer["verdict"]["word"] == "IDENTICAL":
                self.assertEqual(code, 0, level)
            if answer["verdict"]["word"] == "DIFFERENT" and answer["command"] == "compare":
                self.assertEqual(code, 1, level)
        else:
            self.assertEqual(code, 3)
        code_plain, text_plain, errors_plain = run()
        self.assertEqual(code_plain, code)
        if answer and script_says:  # the standard output is the script's
            self.assertEqual(text_plain, script_says)
            self.assertIn("msprobe: %s\n" % answer["verdict"]["text"], errors_plain)
        elif answer:
            self.assertEqual(text_plain.splitlines()[0], answer["verdict"]["text"])
        code_quiet, text_quiet, errors_quiet = run("-q")
        self.assertEqual((code_quiet, text_quiet), (code, script_says), errors_quiet)
        lines = [line for line in errors_quiet.splitlines() if not line.startswith("  hint: ")]
        self.assertEqual(len(lines), 0 if code == 0 else 1, errors_quiet)
        if code == 1:
            self.assertTrue(errors_quiet.startswith("failed: --fail-on " + level), errors_quiet)
            self.assertIn(answer["verdict"]["text"], errors_quiet)
        return code, answer

    def every_level(self, words, folder, first="error"):
        """{level: exit code} of a command line; `first`: one of its levels."""
        _, answer = self.held(words, folder, first)
        return {item["word"]: self.held(words, folder, item["word"])[0] for item in answer["levels"]}

    def test_of_every_command_at_every_level(self):
        def check(name):
            folder = self.scratch(name)
            codes = self.every_level(self.words(name), folder, COMMANDS[name].level)
            self.assertIn(1, codes.values(), codes)
        self.each(check, of=lambda command: command.level and command.kind != ALWAYS)

    def test_of_isolate(self):
        cases = {"a guilty module": ({"rank0/isolate.csv": GUILTY_ROW + GOOD_ROW}, 1),
                 "a guilty module of one rank": ({"rank0/isolate.csv": GOOD_ROW, "rank1/isolate.csv": GUILTY_ROW}, 1),
                 "none": ({"rank0/isolate.csv": GOOD_ROW + LEFT_OUT_ROW}, 0),
                 "nothing judged": ({"rank0/isolate.csv": LEFT_OUT_ROW}, 1),
                 "no table": ({}, 1),
                 "a table that cannot be read beside one without a guilty module": ({"rank0/isolate.csv": GOOD_ROW, "rank1/isolate.csv": None}, 1),
                 "no table that can be read": ({"rank0/isolate.csv": None}, 3),
                 "a table that is not complete beside one without a guilty module": ({"rank0/isolate.csv": GOOD_ROW, "rank1/isolate.csv.part": GOOD_ROW}, 1)}
        for case, (tables, wanted) in cases.items():
            with self.subTest(case=case):
                folder = self.scratch("isolate")
                shutil.rmtree(folder)
                folder.mkdir()
                isolation(self.places, folder, tables)
                code, _ = self.held(self.words("isolate"), folder, "guilty")
                self.assertEqual(code, wanted)

    def test_a_script_that_fails_is_an_error_in_the_report(self):
        for rows in (GOOD_ROW, GUILTY_ROW):
            for gate in ((), ("--fail-on", "guilty")):
                with self.subTest(rows=rows, gate=gate):
                    folder = self.scratch("isolate")
                    shutil.rmtree(folder)
                    folder.mkdir()
                    isolation(self.places, folder, {"rank0/isolate.csv": rows}, "exit 7")
                    done = subprocess.run(self.words("isolate", *gate, "--json", "--junit", "r.xml"), cwd=folder, env=self.environment(), stdout=subprocess.PIPE,
                                          stderr=subprocess.PIPE, timeout=60, check=False)
                    self.assertEqual(done.returncode, 7, done.stderr)
                    self.assertEqual(json.loads(done.stdout)["exit_code"], 7)
                    [error] = xml.parse(folder / "r.xml").getroot().findall(".//error")
                    self.assertIn("exit code 7", error.get("message"))

    def test_a_run_without_memory_leaves_a_report_with_an_error(self):
        """Where it fails within its command; in less memory it does not get so far, and there is a message only."""
        reports = {}
        for words in ("compare {example}/npu {example}/bench -o out --threads 64", "ckpt_compare {data}/ckpt/single_vs_tp2pp2/a {data}/ckpt/single_vs_tp2pp2/b -o out/s.json",
                      "perf_compare -d {data}/perf/npu_npu_all/comparison_ascend_pt -bp {data}/perf/npu_npu_all/base_ascend_pt -o out"):
            words = [MSPROBE] + words.format(**self.places).split() + ["-q", "--junit", "r.xml"]
            for kib in range(20000, 120000, 4000):
                folder = self.scratch("compare")
                done = subprocess.run(["bash", "-c", 'ulimit -v %d; exec "$@"' % kib, "limited", *words], cwd=folder, env=self.environment(), stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, timeout=60, check=False)
                if b"error: out of memory" not in done.stderr:
                    continue
                self.assertEqual(done.returncode, 3, done.stderr)
                if (folder / "r.xml").exists():
                    suites = xml.parse(folder / "r.xml").getroot()
                    self.assertEqual((suites.get("tests"), suites.get("failures"), suites.get("errors")), ("1", "0", "1"))
                    self.assertEqual(suites.find(".//error").get("message"), "out of memory")
                    reports.setdefault(words[1], []).append(kib)
        self.assertGreater(len(reports), 1, reports)

    def test_of_the_golden_pairs_of_compare(self):
        for case in sorted((REPOSITORY / "tests/data/compare").glob("*/compare.json")):
            with self.subTest(case=case.parent.name):
                folder = self.folder / case.parent.name
                shutil.copytree(case.parent, folder)
                words = (folder / "cmd.txt").read_text().replace("-o output", "-o out").split()
                self.every_level([MSPROBE] + words[1:], folder)

    def dump(self, name, level="L1", **changed):
        """A dump of three calls, the second of which is given a mask with -inf; `changed`: statistics of an output by call, None: no such call."""
        def tensor(low, high, mean, norm):
            return {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4, 4], "Max": high, "Min": low, "Mean": mean, "Norm": norm, "requires_grad": False}
        values, data = tensor(-2.0, 2.0, 0.125, 4.0), {}
        for call, out in (("sin", tensor(-0.75, 0.75, 0.125, 2.0)), ("masked_fill", tensor("-inf", 0.75, "-inf", "inf")), ("softmax", tensor(0.0, 1.0, 0.25, 2.5)),
                          ("cos", tensor(0.5, 1.0, 0.75, 3.0))):
            out = {key: float(value) if value in ("inf", "-inf") else value for key, value in {**out, **(changed.get(call) or {})}.items()}
            if call != "cos" and changed.get(call, ()) is not None or call == "cos" and call in changed:
                data["Torch.%s.0.forward" % call] = {"input_args": [values], "input_kwargs": {}, "output": [out]}
            values = out
        folder = self.folder / name / "step0/rank"
        folder.mkdir(parents=True)
        (folder / "dump.json").write_text(json.dumps({"task": "statistics", "level": level, "framework": "pytorch", "dump_data_dir": None, "data": data}))
        for companion in ("stack.json", "construct.json"):
            (folder / companion).write_text("{}")
        return str(self.folder / name)

    def test_of_faults_and_of_none(self):
        nan = float("nan")
        good = self.dump("good")
        cases = {"equal, with -inf on both sides": (good, self.dump("twin"), {0}),
                 "a NaN on both sides": (self.dump("nan_a", softmax={"Mean": nan, "Norm": nan}), self.dump("nan_b", softmax={"Mean": nan, "Norm": nan}), {0}),
                 "a NaN on one side": (self.dump("nan", softmax={"Mean": nan, "Norm": nan}), good, {1}),
                 "an infinity on one side": (self.dump("inf", sin={"Max": float("inf")}), good, {1}),
                 "a wrong result": (self.dump("wrong", softmax={"Max": 0.5, "Norm": 2.0}), good, {1}),
                 "a result that is wrong by little": (self.dump("little", softmax={"Max": 1.0001, "Norm": 2.5002}), good, {1}),
                 "an extra call": (self.dump("extra", cos={}), good, {0, 1}),
                 "a missing call": (good, self.dump("more", cos={}), {0, 1})}
        for case, (npu, bench, wanted) in cases.items():
            with self.subTest(case=case):
                codes = self.every_level([MSPROBE, "compare", npu, bench, "-o", "out"], self.folder)
                self.assertEqual(set(codes.values()), wanted, codes)

    def test_a_run_that_fails_leaves_a_report_with_an_error(self):
        broken = self.folder / "broken.json"
        broken.write_text('{"task": "statistics", ')
        text = self.folder / "text.pt"
        text.write_text("no tensors")
        for words in (("compare", "broken.json", "broken.json", "-o", "out"), ("nan_analyze", "absent"), ("ckpt_compare", "text.pt", "text.pt", "-o", "out/s.json"),
                      ("graph", "broken.json", "broken.json", "-o", "out"), ("recheck", "absent"), ("perf_compare", "broken.json", "broken.json", "-o", "out"),
                      ("config_check", "-c", "text.pt", "text.pt", "-o", "out"), ("grad_compare", "absent", "absent", "-o", "out"),
                      ("rl_compare", "-a", "absent", "-b", "absent", "-o", "out"), ("response_anomaly", "absent.jsonl", "-o", "out"),
                      ("monitor", "diff", "absent", "absent"), ("api_precision_compare", "absent.csv", "absent.csv", "-o", "out")):
            with self.subTest(command=words):
                words = [MSPROBE, *words]
                report = self.folder / "new/report.xml"
                done = subprocess.run(words + ["-q", "--junit", str(report)], cwd=self.folder, env=self.environment(), stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, timeout=60, check=False)
                message = done.stderr.decode().splitlines()[0]
                self.assertTrue(message.startswith("error: "), message)
                self.assertEqual(report.exists(), done.returncode == 3, (done.returncode, message))
                if report.exists():
                    suites = xml.parse(report).getroot()
                    self.assertEqual((suites.get("tests"), suites.get("failures"), suites.get("errors")), ("1", "0", "1"))
                    self.assertIn(suites.find(".//error").get("message"), message)
                    report.unlink()


class EmptyFolders(unittest.TestCase):
    def test_a_command_that_fails_leaves_no_empty_folder(self):
        with tempfile.TemporaryDirectory(prefix="msprobe_answer_") as scratch:
            (Path(scratch) / "dump.json").write_text("{")
            for words in ("compare dump.json dump.json -o new/folder", "perf_compare -d dump.json -bp dump.json -o new/folder",
                          "nan_analyze -i absent -o new/folder"):
                done = subprocess.run([MSPROBE] + words.split(), cwd=scratch, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      timeout=60, check=False)
                self.assertIn(done.returncode, (2, 3), (words, done.stderr))
                self.assertEqual(os.listdir(scratch), ["dump.json"], words)


class Plan(unittest.TestCase):
    """What keeps all forms equal: analyses know no width and no colour, and one file decides about --fail-on."""

    def sources(self, folder):
        for path in sorted((REPOSITORY / "src" / folder).rglob("*")):
            if path.suffix in (".h", ".cpp"):
                yield path.relative_to(REPOSITORY), path.read_text(encoding="utf-8")

    def test_analyses_render_nothing(self):
        forms = re.compile(r"report/(screen|render|text_layout)\.h|\bTerminalTable\b|\bTerminalOptions\b|\bScreenOptions\b|\bInk::|"
                           r"\\x1b\[|\bsize_t (width|columns_wide)\b.*color|\bbool colou?r\b|\bisatty\b")
        found = ["%s: %s" % (path, match.group()) for path, text in self.sources("analysis") for match in forms.finditer(text)]
        self.assertEqual(found, [])

    def test_one_place_renders_for_terminals(self):
        holders = [str(path) for path, text in self.sources("") if re.search(r"\bstruct ScreenOptions\b", text)]
        self.assertEqual(holders, ["src/report/screen.h"])
        calls = [str(path) for path, text in self.sources("commands") if "RenderTerminal(" in text]
        self.assertEqual(calls, ["src/commands/answer.cpp"])

    def test_one_file_decides_about_fail_on(self):
        flags = [str(path) for path, text in self.sources("") if re.search(r'name = "--fail', text)]
        self.assertEqual(flags, ["src/commands/answer.cpp"])
        words = [str(path) for path, text in self.sources("") if re.search(r"fail_on_?\s*(==|!=)", text)]
        self.assertEqual(words, [])
        gates = [str(path) for path, text in self.sources("") if re.search(r"\bGate::Fails\b", text)]
        self.assertEqual(gates, ["src/report/document.cpp"])

    def test_one_file_writes_junit(self):
        writers = [str(path) for path, text in self.sources("") if "<testsuite" in text]
        self.assertEqual(writers, ["src/report/render_junit.cpp"])


if __name__ == "__main__":
    MSPROBE, REPOSITORY = os.path.abspath(sys.argv[1]), Path(sys.argv[2]).resolve()
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
