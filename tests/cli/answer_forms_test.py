#!/usr/bin/env python3
"""Every command that answers, in every form of an answer: on a terminal of 60 columns, in a pipe, without UTF-8, without
colours, as JSON and as a JUnit report. And the plan behind it: one place renders for terminals, one decides about --fail-on.

usage: answer_forms_test.py MSPROBE REPOSITORY [TEST...]
"""
import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import unicodedata
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path

MSPROBE = None
REPOSITORY = None
WIDTH = 60

# name: (arguments, a word of --fail-on that holds, the first word of the answer). {data} is tests/data, {example} docs/example,
# {run} a monitored run that differs from {same} at one step.
COMMANDS = {
    "compare": ("compare {example}/npu {example}/bench -o out", "different", "DIFFERENT"),
    "ckpt_compare": ("ckpt_compare {data}/ckpt/single_vs_tp2pp2/a {data}/ckpt/single_vs_tp2pp2/b -o out/similarity.json", "different",
                     "DIFFERENT"),
    "config_check": ("config_check -c {example}/config_check/gpu.zip {example}/config_check/npu.zip -o out", "error",
                     "NOT THE SAME EXPERIMENT"),
    "config_check -vc": ("config_check -vc {example}/config_check/npu_train.log {example}/config_check/gpu_train.log -o out", "error",
                         "DIFFERENT SETTINGS"),
    "nan_analyze": ("nan_analyze -i {data}/nan_analyze/p2p_chain/step0 -o out", "origin", "FOUND"),
    "perf_compare": ("perf_compare -d {data}/perf/npu_npu_all/comparison_ascend_pt -bp {data}/perf/npu_npu_all/base_ascend_pt -o out",
                     "e2e>0.001%", None),
    "rl_compare": ("rl_compare -a {data}/rl_compare/rl_collect/run_a -b {data}/rl_compare/rl_collect/run_b -o out", "different",
                   "DIFFERENT"),
    "monitor diff": ("monitor diff {same} {run}", "different", "The runs part"),
}


def columns(line):
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line)


def squeezed(text):
    return re.sub(r"\s", "", text)


class AnswerForms(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="msprobe_answer_")).resolve()
        self.addCleanup(shutil.rmtree, self.folder)
        same = REPOSITORY / "tests/data/monitor/files/csv2tb/monitor_output"
        run = self.folder / "run"
        shutil.copytree(same, run)
        for file in run.glob("*/actv_6-8.csv"):
            os.chmod(file, 0o644)
            file.write_text(re.sub(r"^0,0.norm1.output,6,0,8", "0,0.norm1.output,6,0,9", file.read_text(), flags=re.M))
        self.places = {"data": REPOSITORY / "tests/data", "example": REPOSITORY / "docs/example", "same": same, "run": run}
        self.runs = 0

    def words(self, name, *more):
        return [MSPROBE] + COMMANDS[name][0].format(**self.places).split() + list(more)

    def environment(self, **more):
        kept = {key: value for key, value in os.environ.items() if not key.startswith(("MSPROBE_", "LC_", "LANG", "NO_COLOR"))}
        kept.update(TERM="xterm", LC_ALL="C.UTF-8")
        kept.update(more)
        return kept

    def scratch(self):
        """An empty folder with an `out` that ckpt_compare can write into."""
        self.runs += 1
        folder = self.folder / ("scratch%d" % self.runs)
        (folder / "out").mkdir(parents=True)
        return folder

    def piped(self, name, *more, **environment):
        folder = self.scratch()
        done = subprocess.run(self.words(name, *more), cwd=folder, env=self.environment(**environment), stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
        return done.returncode, done.stdout.decode("utf-8"), done.stderr.decode("utf-8"), folder

    def on_terminal(self, name, *more, **environment):
        """What a terminal of WIDTH columns gets on the standard output."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, WIDTH, 0, 0))
        process = subprocess.Popen(self.words(name, *more), cwd=self.scratch(), env=self.environment(**environment),
                                   stdin=subprocess.DEVNULL, stdout=slave, stderr=subprocess.DEVNULL)
        os.close(slave)
        text = b""
        while True:
            try:
                read = os.read(master, 65536)
            except OSError:
                break
            if not read:
                break
            text += read
        os.close(master)
        self.assertEqual(process.wait(timeout=120), 0)
        return text.decode("utf-8").replace("\r\n", "\n")

    def each(self, check):
        for name in COMMANDS:
            with self.subTest(command=name):
                check(name)

    def test_a_pipe_gets_the_verdict_first_and_nothing_cut(self):
        def check(name):
            code, text, errors, folder = self.piped(name)
            self.assertEqual(code, 0, errors)
            if COMMANDS[name][2]:
                self.assertTrue(text.startswith(COMMANDS[name][2]), text.splitlines()[0])
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

    def test_json_is_the_answer_and_nothing_else(self):
        def check(name):
            _, text, _, _ = self.piped(name)
            code, out, errors, folder = self.piped(name, "--json", "--fail-on", COMMANDS[name][1])
            answer = json.loads(out, parse_constant=lambda word: self.fail("%s is not JSON" % word))
            self.assertEqual(code, 1, errors)
            self.assertEqual(answer["exit_code"], 1)
            self.assertEqual(answer["verdict"]["text"], text.splitlines()[0])
            self.assertIn(answer["verdict"]["standing"], ("clean", "findings"))
            self.assertTrue(answer["sections"])
            self.assertIn(COMMANDS[name][1], [level["word"] for level in answer["levels"]])
            for file in answer["files"]:
                self.assertTrue((folder / file).exists(), file)
            _, quiet, _, _ = self.piped(name, "--json", "-q")
            self.assertEqual(json.loads(quiet)["verdict"], answer["verdict"])
        self.each(check)

    def test_every_file_that_was_written_is_named(self):
        def check(name):
            _, out, _, folder = self.piped(name, "--json", "--junit", "report.xml")
            named = [str((folder / file).resolve()) for file in json.loads(out)["files"]]
            written = [str(path) for path in folder.rglob("*") if path.is_file()]
            for path in written:
                self.assertTrue(any(path == one or path.startswith(one + "/") for one in named), "%s is not among %s" % (path, named))
            _, text, _, folder = self.piped(name, "--junit", "report.xml")
            for path in (path.relative_to(folder) for path in folder.rglob("*") if path.is_file()):
                holders = [str(path), str(folder / path)] + [str(parent) + "/" for parent in (folder / path).parents]
                self.assertTrue(any("\n  %s\n" % one in text for one in holders), "%s: %s" % (path, text))
        self.each(check)

    def test_the_junit_report_tells_the_same(self):
        def check(name):
            code, _, errors, folder = self.piped(name, "--junit", "report.xml", "--fail-on", COMMANDS[name][1])
            self.assertEqual(code, 1, errors)
            suites = xml.parse(folder / "report.xml").getroot()
            self.assertEqual(suites.tag, "testsuites")
            cases = suites.findall(".//testcase")
            self.assertEqual(int(suites.get("tests")), len(cases))
            failures = [case for case in cases if case.find("failure") is not None]
            self.assertEqual(int(suites.get("failures")), len(failures))
            self.assertTrue(failures)
        self.each(check)

    def test_quiet_says_nothing(self):
        def check(name):
            code, text, errors, _ = self.piped(name, "-q")
            self.assertEqual((code, text), (0, ""), errors)
        self.each(check)

    def test_a_word_that_fail_on_does_not_know_is_a_usage_error(self):
        def check(name):
            code, text, errors, folder = self.piped(name, "--fail-on", "nonsense")
            self.assertEqual((code, text), (2, ""), errors)
            self.assertIn("nonsense", errors)
        self.each(check)


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
        flags = [str(path) for path, text in self.sources("") if re.search(r'add_option\([^;]*"--fail[-_](on|if)', text)]
        self.assertEqual(flags, ["src/commands/answer.cpp"])
        words = [str(path) for path, text in self.sources("") if re.search(r"fail_on_?\s*(==|!=)", text)]
        self.assertEqual(words, [])
        gates = [str(path) for path, text in self.sources("") if re.search(r"\bGate::Fails\b", text)]
        self.assertEqual(gates, ["src/report/gate.cpp"])

    def test_one_file_writes_junit(self):
        writers = [str(path) for path, text in self.sources("") if "<testsuite" in text]
        self.assertEqual(writers, ["src/report/render_junit.cpp"])


if __name__ == "__main__":
    MSPROBE, REPOSITORY = os.path.abspath(sys.argv[1]), Path(sys.argv[2]).resolve()
    unittest.main(argv=[sys.argv[0]] + sys.argv[3:])
