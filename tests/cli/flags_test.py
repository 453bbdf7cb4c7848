#!/usr/bin/env python3
"""Holds the tables of flags, and what is made from them: help, man pages, completion, suggestions.

usage: flags_test.py MSPROBE REPOSITORY [TEST...]
"""
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from terminals import run_on_terminal

MSPROBE = None
REPOSITORY = None

# What scripts written for the Python tools say, per command: every flag of mindstudio-probe 8.1.1 and 26 and of msprof-analyze that
# the command knows. Flags with a value stand with one.
PYTHON_SPELLINGS = {
    "compare": ["-i FILE", "--input_path FILE", "-o DIR", "--output_path DIR", "-s", "--stack_mode", "-c", "--compare_only", "-f", "--fuzzy_match", "-fm",
                "-cm FILE", "--cell_mapping FILE", "-am FILE", "--api_mapping FILE", "-dm FILE", "--data_mapping FILE", "-lm FILE",
                "--layer_mapping FILE", "-tp PATH", "--target_path PATH", "-gp PATH", "--golden_path PATH", "-m auto", "--mode auto", "--xlsx",
                "-da", "--diff_analyze", "-tensor_log", "--is_print_compare_log", "--rank 0", "--step 0", "--consistent_check",
                "--backend fsdp"],
    "config_check": ["-d", "--dump", "-c A B", "--compare A B", "-o PATH", "--output PATH", "-vc A B", "--verl_compare A B", "-vv A",
                     "--verl_verify A"],
    "data2db": ["--db DIR", "--data DIR", "--format auto", "--mapping FILE", "--micro_step true", "--process_num 2"],
    "dump": ["--dump_path DIR"],
    "gen_model_config": ["--model-path DIR", "--model-name NAME"],
    "install_deps": ["-m offline", "--no_check"],
    "offline_dump": ["--model_path FILE", "--input_data FILE", "-o DIR", "--output_path DIR", "--input_shape x:1", "--rank 0",
                     "--dym_shape_range x:1", "--output_size 1", "--onnx_fusion_switch True"],
    "merge_result": ["-i DIR", "--input_dir DIR", "-o DIR", "--output_dir DIR", "-config FILE", "--config-path FILE"],
    "monitor analyse": ["-d DIR", "--data_path DIR", "-o DIR", "--out_path DIR", "-k 3", "--topk 3", "-s [1]", "--step [1]", "--step_list [1]"],
    "monitor csv2db": ["--monitor_path DIR", "--db DIR", "--process_num 2"],
    "monitor csv2tb": ["--monitor_path DIR", "--time_start T", "--time_end T", "--process_num 2", "--data_type_list actv", "--output_dirpath DIR"],
    "nan_analyze": ["-i DIR", "--input_path DIR", "-o DIR", "--output_path DIR"],
    "graph": ["-i FILE", "--input_path FILE", "-o DIR", "--output_path DIR", "-lm", "--layer_mapping FILE", "-oc", "--overflow_check", "-f",
              "--fuzzy_match", "-cs", "--complete_stack"],
    "overflow_check": ["-i DIR", "--input_path DIR", "-o DIR", "--output_path DIR"],
    "perf_compare": ["-d P", "--profiling_path P", "-bp P", "--benchmark_profiling_path P", "-o DIR", "--output_path DIR", "--debug",
                     "--enable_profiling_compare", "--enable_operator_compare", "--enable_memory_compare", "--enable_communication_compare",
                     "--enable_api_compare", "--enable_kernel_compare", "--disable_details", "--disable_module", "--max_kernel_num 5",
                     "--op_name_map {}", "--use_input_shape", "--gpu_flow_cat x", "--base_step 1", "--comparison_step 1",
                     "--use_kernel_type"],
    "rl_compare": ["-a DIR", "-b DIR", "-o DIR", "--output_path DIR", "-f csv"],
}

# The same thing has the same name in every command that has it.
# They take the command lines of the vendor's tool, where -o is the number of an output and -out the folder.
LETTERS_OF_MSACCUCMP = ("msprobe msaccucmp compare", "msprobe msaccucmp convert")
SAME_EVERYWHERE = {"-o": "--output", "-q": "--quiet", "-h": "--help"}
# Names of the past, as main names nowhere.
NOT_A_MAIN_NAME = ["--output-path", "--output-dir", "--out-path", "--db", "--dump-path", "--fail-if", "--process-num", "--topk",
                   "--data-type-list", "--ops"]


def run(*words, code=0, **options):
    ended = subprocess.run([MSPROBE, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                           check=False, **options)
    assert code is None or ended.returncode == code, (words, ended.returncode, ended.stderr.decode())
    return ended.stdout.decode("utf-8"), ended.stderr.decode("utf-8")


def all_commands(command):
    return [command] + [entry for below in command["subcommands"] for entry in all_commands(below)]


class Tables(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.program = json.loads(run("help", "--format", "json")[0])
        cls.commands = all_commands(cls.program)

    def words(self, command):
        return command["command"].split()[1:]

    def shown(self, command):
        return [flag for flag in command["flags"] if not flag["hidden"]]

    def test_no_two_flags_of_a_command_share_a_spelling(self):
        self.assertGreater(len(self.commands), 20)
        for command in self.commands:
            spellings = [spelling for flag in command["flags"] for spelling in flag["spellings"]]
            self.assertEqual(sorted(spellings), sorted(set(spellings)), command["command"])

    def test_every_command_has_a_summary_without_a_full_stop(self):
        for command in self.commands[1:]:
            self.assertRegex(command["summary"], r"^[A-Z].*[^.]$", command["command"])

    def test_every_flag_has_a_group_a_meaning_and_a_version(self):
        for command in self.commands:
            for flag in command["flags"]:
                where = command["command"] + " " + flag["name"]
                self.assertRegex(flag["name"], r"^--[a-z0-9]+(-[a-z0-9]+)*$", where)
                self.assertRegex(flag["letter"], r"^(-[a-zA-Z])?$", where)
                self.assertTrue(flag["group"], where)
                self.assertRegex(flag["help"], r"^\S.*[^.\s]$", where)
                self.assertRegex(flag["since"], r"^(Python )?\d+(\.\d+)*$", where)
                for alias in flag["aliases"]:
                    self.assertRegex(alias, r"^--?[a-z]", where)

    def test_a_default_is_one_of_the_values(self):
        checked = 0
        for command in self.commands:
            for flag in command["flags"]:
                words = flag["default"].split(";")[0].split(",")
                if flag["values"] and flag["default"] and flag["default"] != "detected":
                    self.assertTrue(set(words) <= set(flag["values"]), (command["command"], flag))
                    checked += 1
        self.assertGreater(checked, 20)

    def test_the_same_thing_has_the_same_name_everywhere(self):
        for command in self.commands:
            for flag in command["flags"]:
                where = command["command"] + " " + flag["name"]
                if flag["letter"] in SAME_EVERYWHERE and command["command"] not in LETTERS_OF_MSACCUCMP:
                    self.assertEqual(flag["name"], SAME_EVERYWHERE[flag["letter"]], where)
                self.assertNotIn(flag["name"], NOT_A_MAIN_NAME, where)
                if flag["name"] == "--output" and command["command"] not in LETTERS_OF_MSACCUCMP:
                    self.assertEqual(flag["letter"], "-o", where)
            names = [flag["name"] for flag in command["flags"]]
            for name in ("--quiet", "--verbose", "--help"):
                self.assertIn(name, names, command["command"])
            self.assertEqual("--fail-on" in names, "--junit" in names, command["command"])

    def test_a_letter_of_ours_means_one_thing(self):
        """Letters of the Python tools stay where they are."""
        meanings = {}
        for command in self.commands:
            for flag in command["flags"]:
                if flag["letter"] and not flag["since"].startswith("Python"):
                    meanings.setdefault(flag["letter"], set()).add(flag["name"])
        self.assertEqual({letter: names for letter, names in meanings.items() if len(names) > 1}, {})

    def test_every_command_with_an_input_takes_it_without_a_flag(self):
        for command in self.commands:
            if command["subcommands"] and command["usage"].endswith("COMMAND"):
                continue
            if command["command"] not in ("msprobe devices", "msprobe install_deps"):
                self.assertTrue(command["arguments"], command["command"])

    def test_the_tested_side_stands_in_front_of_its_reference(self):
        pairs = 0
        for command in self.commands:
            names = [argument["name"] for argument in command["arguments"]]
            for reference in ("REFERENCE", "BENCH_PATH"):
                if reference in names:
                    self.assertEqual(names.index(reference), 1, command["command"])
                    pairs += 1
        self.assertGreaterEqual(pairs, 7)

    def test_help_shows_every_row_and_nothing_else(self):
        for command in self.commands:
            text, _ = run(*self.words(command), "--help")
            joined = re.sub(r"\s+", " ", text)
            self.assertEqual(text, run("help", *self.words(command))[0])
            self.assertIn(command["usage"], joined)
            headings = re.findall(r"^  (?:-\w, |    )(--[a-z-]+)", text, re.M)
            self.assertEqual(sorted(headings), sorted(flag["name"] for flag in self.shown(command)), command["command"])
            for flag in self.shown(command):
                for clause in flag["help"].split(";", 1):  # the allowed values stand between them
                    self.assertIn(clause.strip(), joined)
                if flag["default"]:
                    self.assertIn("default: " + flag["default"], joined, flag["name"])
                if flag["values"]:
                    self.assertIn(flag["values"][-1], joined)
            for argument in command["arguments"]:
                self.assertIn(argument["help"], joined)
            for example in command["examples"]:
                self.assertIn(example["meaning"], joined)
                self.assertTrue(example["meaning"], example["command"])

    def test_help_fits_into_narrow_terminals(self):
        for command in self.commands:
            for columns in (60, 80):
                status, text = run_on_terminal([MSPROBE, *self.words(command), "--help"], columns=columns)
                self.assertEqual(status, 0)
                self.assertEqual([line for line in text.splitlines() if len(line) > columns], [], (command["command"], columns))
                # A command that goes on in the next line can be copied as it stands.
                joined = re.sub(r" \\\n +", " ", text)
                for example in command["examples"]:
                    self.assertIn("\n  %s\n" % example["command"], joined)
        _, text = run_on_terminal([MSPROBE, "help", "which"], columns=60)
        self.assertEqual([line for line in text.splitlines() if len(line) > 60], [])

    def test_columns_wraps_help_in_a_pipe(self):
        for chosen, width in (("60", 60), ("80", 80), ("7", 100), ("none", 100)):
            text = subprocess.run([MSPROBE, "--help"], stdout=subprocess.PIPE, check=True, timeout=60, text=True,
                                  env={**os.environ, "COLUMNS": chosen}).stdout
            longest = max(map(len, text.splitlines()))
            self.assertLessEqual(longest, width, chosen)
            self.assertGreater(longest, width - 20, chosen)

    def test_every_command_stands_below_one_heading(self):
        topics = {topic["title"]: topic["commands"] for topic in self.program["topics"]}
        self.assertEqual(list(topics), ["Capture", "Compare", "Diagnose", "View", "Ascend files", "This program", "Names of the Python tool"])
        listed = [name for names in topics.values() for name in names]
        self.assertEqual(len(listed), len(set(listed)))
        self.assertEqual(set(listed) - {"msprobe monitor " + name for name in ("run", "top", "report", "diff")},
                         {command["command"] for command in self.program["subcommands"]})
        page, _ = run("help", "--format", "man")
        for title in topics:
            self.assertIn(".SS %s\n" % title, page)

    def test_commands_that_check_operators_say_when_to_take_them(self):
        when = [command["command"] for command in self.commands if command["when"]]
        for name in ("run_ut", "recheck", "isolate", "op_generate", "free_benchmark"):
            self.assertIn("msprobe " + name, when)
        for title in when:
            text = re.sub(r"\s+", " ", run(*title.split()[1:], "--help")[0])
            self.assertIn("docs/how-to/which-operator-check.md", text)
            self.assertIn(next(command["when"] for command in self.commands if command["command"] == title), text)

    def test_help_shows_defaults_whatever_else_is_typed(self):
        plain, _ = run("compare", "--help")
        self.assertEqual(run("compare", "--atol", "3", "-o", "elsewhere", "--help")[0], plain)

    def test_examples_are_command_lines_that_are_understood(self):
        examples = 0
        for command in self.commands:
            for example in command["examples"]:
                line = re.split(r" [|>] ?|^source <\(|\)$", example["command"])
                words = shlex.split(next(part[part.index("msprobe "):] for part in line if part.startswith(("msprobe ", "mpirun "))))[1:]
                if "--" in words:
                    words = words[:words.index("--")]
                # Help is asked for: nothing is run, but every flag must be known and every value be allowed.
                _, errors = run(*words, "--help")
                self.assertEqual(errors, "")
                examples += 1
        self.assertGreater(examples, 50)

    def test_spellings_of_the_python_tools_work(self):
        for title, lines in PYTHON_SPELLINGS.items():
            for line in lines:
                with self.subTest(command=title, flag=line):
                    _, errors = run(*title.split(), *line.split(), "--help")
                    self.assertEqual(errors, "")

    def test_dashes_and_underscores_are_the_same(self):
        for spelling in ("--output-name", "--output_name"):
            self.assertEqual(run("compare", spelling, "x", "--help")[1], "")
        self.assertIn("has no flag --output+name", run("compare", "--output+name", "x", code=2)[1])

    def test_values_that_look_like_flags_stay_values(self):
        # -cm is a flag of compare; behind --filter it is the pattern.
        _, errors = run("compare", "--filter", "-cm", "nothing_a", "nothing_b", code=3)
        self.assertIn("nothing_a does not exist", errors)

    def test_defaults_that_are_shown_are_those_in_effect(self):
        """Where giving the default explicitly can be told from its absence."""
        folder = str(REPOSITORY / "docs/example")
        shown = {flag["name"]: flag["default"] for command in self.commands if command["command"] == "msprobe compare"
                 for flag in command["flags"]}
        with tempfile.TemporaryDirectory() as scratch:
            run("compare", folder + "/npu", folder + "/bench", "-q", cwd=scratch)
            self.assertEqual([path.name for path in Path(scratch).iterdir()], [os.path.basename(shown["--output"])])
            endings = {path.suffix for path in (Path(scratch) / shown["--output"]).glob("compare_result_*")}
            self.assertEqual(endings, {"." + shown["--format"].split(";")[0]})


class Suggestions(unittest.TestCase):
    def hint(self, *words):
        out, errors = run(*words, code=2)
        self.assertEqual(out, "")
        return errors

    def test_commands(self):
        for typed, meant in (("comapre", "compare"), ("cmp", "compare or monitor diff"), ("diff", "compare or monitor diff"),
                             ("analyze", "nan_analyze or monitor analyse"), ("analyse", "nan_analyze or monitor analyse"),
                             ("report", "monitor report"), ("top", "monitor top"), ("csv2tb", "monitor csv2tb"), ("recover", "dump recover"), ("disable", "dump ctl"),
                             ("nan-analyze", "nan_analyze"), ("SHOW", "show"), ("perf", "perf_compare"),
                             ("ckpt-compare", "ckpt_compare")):
            self.assertIn("did you mean %s?" % meant, self.hint(typed, "a", "b"), typed)
        self.assertIn("msprobe help which tells which command answers which question", self.hint("zzzzzzzzzzz"))

    def test_commands_of_the_monitor(self):
        for typed, meant in (("analyze", "monitor analyse"), ("cmp", "monitor diff"), ("compare", "monitor diff"), ("repotr", "monitor report"),
                             ("Top", "monitor top"), ("tensorboard", "monitor csv2tb"), ("show", "show")):
            word = meant.split()[-1]
            self.assertRegex(self.hint("monitor", typed, "a"), r"did you mean (monitor )?%s\?" % word, typed)

    def test_flags(self):
        for typed, meant in (("--treads", "--threads"), ("--jobs", "--threads"), ("--out", "--output"), ("--overwrite", "--force"),
                             ("--FORCE", "--force"), ("--failon", "--fail-on"), ("--data_mappin", "--data-mapping"), ("-threads", "--threads"),
                             ("--fuzzy", "--fuzzy-match"), ("--tolerance", "--rtol")):
            self.assertIn("did you mean %s?" % meant, self.hint("compare", "a", "b", typed), typed)

    def test_what_is_wrong_stands_in_the_order_of_typing(self):
        self.assertIn("unexpected arguments: third, fourth\n", self.hint("compare", "a", "b", "third", "fourth"))
        self.assertIn("has no flags --zeta, --alpha\n", self.hint("compare", "--zeta", "a", "b", "--alpha"))

    def test_of_two_wrong_values_the_first_is_told(self):
        self.assertIn("--format takes", self.hint("compare", "a", "b", "--format", "docx", "--threads", "none"))
        self.assertIn("--threads takes", self.hint("compare", "a", "b", "--threads", "none", "--format", "docx"))

    def test_a_flag_is_named_as_it_was_typed(self):
        self.assertIn("--topk takes a whole number", self.hint("nan_analyze", "x", "--topk", "many"))
        self.assertIn("--dump_path needs DIR", self.hint("dump", "--dump_path"))

    def test_a_flag_is_no_value(self):
        self.assertIn("--output-name needs a value, found the flag --force", self.hint("compare", "a", "b", "--output-name", "--force"))

    def test_unknown_values_have_a_suggestion(self):
        text = self.hint("dump", "--level", "L3", "--", "true")
        self.assertIn('--level takes L0, L1, mix, L2, L2k or debug, not "L3"', text)
        self.assertIn("did you mean xlsx?", self.hint("compare", "a", "b", "--format", "xslx"))


class ManPages(unittest.TestCase):
    def test_one_page_per_command_that_man_can_format(self):
        program = json.loads(run("help", "--format", "json")[0])
        with tempfile.TemporaryDirectory() as scratch:
            run("help", "--man-pages", "man1", cwd=scratch)
            pages = {path.name: path.read_text(encoding="utf-8") for path in (Path(scratch) / "man1").iterdir()}
            commands = all_commands(program)
            self.assertEqual(sorted(pages), sorted(command["command"].replace(" ", "-") + ".1" for command in commands))
            for command in commands:
                page = pages[command["command"].replace(" ", "-") + ".1"]
                self.assertTrue(page.startswith(".TH "))
                for flag in command["flags"]:
                    if not flag["hidden"]:
                        self.assertIn(flag["name"].replace("-", "\\-"), page)
                for document in re.findall(r"docs/commands/\w+\.md", page):
                    self.assertTrue((REPOSITORY / document).is_file(), document)
                self.assertEqual("docs/commands/" in page, command is not program)
                for line in page.splitlines():  # no text is read as a request
                    self.assertRegex(line, r"^(\.(TH|SH|SS|TP|PP|B|BR|nf|fi)\b|[^.'])|^$", command["command"])
            _, errors = run("help", "--man-pages", "man1", code=2, cwd=scratch)
            self.assertIn("--force", errors)
            run("help", "--man-pages", "man1", "--force", cwd=scratch)

    def test_groff_has_nothing_to_say(self):
        if shutil.which("groff") is None:
            self.skipTest("groff is not installed")
        for words in (["compare"], ["monitor", "diff"], []):
            page, _ = run("help", *words, "--format", "man")
            ended = subprocess.run(["groff", "-man", "-Tutf8", "-ww", "-z"], input=page.encode(), stderr=subprocess.PIPE, check=True)
            self.assertEqual(ended.stderr.decode(), "")

    def test_a_page_of_an_unknown_command_is_refused(self):
        self.assertIn("did you mean monitor report?", run("help", "report", code=2)[1])


class Completion(unittest.TestCase):
    def complete(self, line, folder=None):
        """What bash offers at the end of `line`."""
        words = line.split(" ")
        script = """
            source <("$1" completion bash) || exit 9
            compopt() { :; }
            COMP_WORDS=(%s)
            COMP_CWORD=%d
            COMPREPLY=()
            _msprobe
            printf '%%s\\n' "${COMPREPLY[@]}"
        """ % (" ".join(shlex.quote(word) for word in words), len(words) - 1)
        ended = subprocess.run(["bash", "-c", script, "bash", MSPROBE], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=folder, timeout=60,
                               check=True)
        self.assertEqual(ended.stderr.decode(), "", line)
        return [line for line in ended.stdout.decode().splitlines() if line]

    def test_bash_completes_commands(self):
        self.assertIn("compare", self.complete("msprobe "))
        self.assertEqual(self.complete("msprobe comp"), ["compare", "compile_check", "completion"])
        self.assertIn("diff", self.complete("msprobe monitor "))
        self.assertEqual(self.complete("msprobe -q monitor an"), ["analyse"])
        self.assertEqual(self.complete("msprobe completion z"), ["zsh"])

    def test_bash_completes_every_flag_of_every_command(self):
        for command in all_commands(json.loads(run("help", "--format", "json")[0])):
            offered = self.complete(command["command"] + " --")
            for flag in command["flags"]:
                self.assertEqual(flag["name"] in offered, not flag["hidden"], command["command"])

    def test_bash_completes_values(self):
        self.assertEqual(self.complete("msprobe compare a b --fail-on d"), ["different", "drift"])
        self.assertEqual(self.complete("msprobe compare --format x"), ["xlsx"])
        self.assertEqual(self.complete("msprobe compare --format xlsx,h"), ["xlsx,html"])
        self.assertEqual(self.complete("msprobe compare --format = c"), ["csv"])
        self.assertEqual(self.complete("msprobe -f m"), ["mindspore"])
        self.assertEqual(self.complete("msprobe dump --level L"), ["L0", "L1", "L2", "L2k"])
        self.assertEqual(self.complete("msprobe compare --threads "), [])

    def test_bash_completes_files_and_folders(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "npu dump"))
            Path(folder, "notes.txt").touch()
            self.assertEqual(sorted(self.complete("msprobe compare n", folder)), ["notes.txt", "npu dump"])
            self.assertEqual(self.complete("msprobe compare -o n", folder), ["npu dump"])
            self.assertEqual(sorted(self.complete("msprobe compare -i n", folder)), ["notes.txt", "npu dump"])
            self.assertEqual(self.complete("msprobe dump -- n", folder), [])

    def test_fish_completes_commands_flags_and_values(self):
        if shutil.which("fish") is None:
            self.skipTest("fish is not installed")
        for line, wanted in (("msprobe comp", ["compare", "compile_check", "completion"]), ("msprobe monitor di", ["diff"]),
                             ("msprobe monitor diff --fail", ["--fail-on"]), ("msprobe dump --level L", ["L0", "L1", "L2", "L2k"]),
                             ("msprobe compare --format xlsx,c", ["xlsx,csv"])):
            ended = subprocess.run(["fish", "--no-config", "-c", "$argv[1] completion fish | source; complete -C $argv[2]", MSPROBE, line],
                                   stdout=subprocess.PIPE, check=True)
            self.assertEqual([offer.split("\t")[0] for offer in ended.stdout.decode().splitlines()], wanted, line)

    def test_zsh_and_fish_read_their_scripts(self):
        scripts = {shell: run("completion", shell)[0] for shell in ("zsh", "fish")}
        for shell, text in scripts.items():
            for word in ("compare", "monitor", "fail-on", "xlsx"):
                self.assertIn(word, text)
        missing = [shell for shell in scripts if shutil.which(shell) is None]
        for shell in set(scripts) - set(missing):
            ended = subprocess.run([shell, "-n"], input=scripts[shell].encode(), stderr=subprocess.PIPE, check=False)
            self.assertEqual((ended.returncode, ended.stderr.decode()), (0, ""), shell)
        if missing:
            self.skipTest("not installed: " + ", ".join(missing))


class Includes(unittest.TestCase):
    def test_one_file_includes_the_parser_library(self):
        found = [str(path.relative_to(REPOSITORY)) for path in (REPOSITORY / "src").rglob("*") if path.suffix in (".h", ".cpp") and
                 re.search(r"#\s*include\s*[<\"]CLI/", path.read_text(encoding="utf-8"))]
        self.assertEqual(found, ["src/commands/flag_parser.cpp"])


if __name__ == "__main__":
    MSPROBE, REPOSITORY = os.path.abspath(sys.argv[1]), Path(sys.argv[2]).resolve()
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
