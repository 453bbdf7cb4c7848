#!/usr/bin/env python3
"""Executes the examples of the documentation and follows its links.

usage: docs_test.py MSPROBE REPOSITORY [TEST...]

Every ```console block of README*.md, CONTRIBUTING.md and docs/ is run: the lines behind "$ " in bash, one after another, in a
scratch folder that all blocks of one document share and that holds docs/example as docs/example, npu_dump and bench_dump, and
small checkpoints of tests/data/ckpt as gpu_ckpt, npu_ckpt and incomplete_ckpt, small profiles as
before_ascend_pt, after_ascend_pt and gpu.pt.trace.json, and a step of tests/data/nan_analyze as nan_dump, two runs of tests/data/rl_compare as run_a and run_b, those of tests/data/grad_probe as grad_npu and grad_gpu, that of tests/data/rl_tokens as rl_run, two files of tests/data/accuracy as npu_details.csv and gpu_details.csv and a dump as operators_dump, those of tests/data/recheck as npu_tensors and bench_tensors. The lines below a command are its expected output
(stdout and stderr); times, rates, stamps and absolute paths are made equal before the comparison, and a line "..." stands for any
number of lines. The pages of docs/how-to find docs/example alone: they run as written in any clone. A command without lines below it must only succeed; "$ echo $?" shows the exit code of one that need not. Commands of tools/ must exist and know their flags; they are not run, except that the output
shown for tools/quickstart.sh must be that of the comparison in it.

A document with the line "<!-- needs PyTorch -->" is run only where PyTorch and the Python shim are; python3 in documents is the one
that runs this test. One with the line "<!-- run by the test NAME -->" is left to that test.
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

sys.path.insert(0, str(Path(__file__).parent))
import monitor_data  # noqa: E402
import page_tests  # noqa: E402

MSPROBE = None
REPOSITORY = None
MARK = "@@end-of-command@@"
RUN_BY_ANOTHER_TEST = "<!-- run by the test "
NEEDS_PYTORCH = "<!-- needs PyTorch -->"


def documents():
    return sorted(list(REPOSITORY.glob("*.md")) + list((REPOSITORY / "docs").rglob("*.md")) +
                  list((REPOSITORY / "src").rglob("*.md")) + list((REPOSITORY / "tests").rglob("*.md")))


def console_blocks(path):
    """(line number, [(command, [expected lines])]) of each console block."""
    blocks, steps, start = [], None, 0
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if steps is None:
            if line.strip() == "```console":
                steps, start = [], number
        elif line.strip() == "```":
            blocks.append((start, steps))
            steps = None
        elif line.startswith("$ "):
            steps.append((line[2:], []))
        elif steps:
            steps[-1][1].append(line)
    return blocks


PROGRESS = re.compile(r"^[a-z ]+: +[\d.]+ %.* left\)$")


def normalize(line, folder):
    line = line.replace(str(folder) + "/", "").replace(str(REPOSITORY) + "/", "").rstrip()
    line = re.sub(r"\d{14}", "<stamp>", line)
    line = re.sub(r"\d+ min \d+ s\b", "<time>", line)
    line = re.sub(r"[\d.]+ (s|ms|us)\b", "<time>", line)
    line = re.sub(r"[\d.]+ [kMGT]?B/s", "<rate>", line)
    line = re.sub(r"\b\d+ threads?\b", "<threads>", line)
    line = re.sub(r"[\d.]+ %", "<share>", line)
    return re.sub(r"\S*example_output/", "out/", line)


def has_pytorch():
    shim = MSPROBE.parent.parent / "python/msprobe"
    return shim.is_dir() and subprocess.run([sys.executable, "-c", "import torch"], stderr=subprocess.DEVNULL,
                                            check=False).returncode == 0


def matches(expected, actual):
    """Whether the lines agree when "..." in expected stands for any number of lines."""
    places = {0}  # how many actual lines may be used up so far
    for line in expected:
        if line.strip() == "...":
            places = set(range(min(places), len(actual) + 1)) if places else set()
        else:
            places = {at + 1 for at in places if at < len(actual) and actual[at] == line}
    return len(actual) in places


def run_block(commands, folder, environment):
    """[(output lines, exit status)] of commands run in one shell."""
    script = ""
    for command in commands:
        # The status stands for "$ echo $?" of the next line, too.
        script += "%s\nmsprobe_status=$?; printf '\\n%s%%d\\n' $msprobe_status; (exit $msprobe_status)\n" % (command, MARK)
    run = subprocess.run(["bash", "-c", "exec 2>&1\n" + script], cwd=folder, env=environment, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, timeout=300, check=False)
    results, lines = [], []
    for line in run.stdout.decode("utf-8", "replace").split("\n"):
        if line.startswith(MARK):
            if lines and lines[-1] == "":
                lines.pop()
            results.append((lines, int(line[len(MARK):])))
            lines = []
        else:
            lines.append(line)
    return results


class Docs(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory(prefix="msprobe_docs_")
        self.addCleanup(self.scratch.cleanup)

    def prepare(self, name):
        folder = Path(self.scratch.name).resolve() / name
        (folder / "docs").mkdir(parents=True)
        example = REPOSITORY / "docs/example"
        shutil.copytree(example, folder / "docs/example")
        if name.startswith("docs_how-to_"):  # to be followed by anyone: nothing else is there
            return folder, self.environment(folder)
        shutil.copytree(example / "npu", folder / "npu_dump")
        shutil.copytree(example / "bench", folder / "bench_dump")
        shutil.copytree(REPOSITORY / "tests/data/kernel_dump", folder / "kernel_dump")
        shutil.copytree(REPOSITORY / "tests/data/torchair", folder / "torchair")
        checkpoints = REPOSITORY / "tests/data/ckpt"
        shutil.copytree(checkpoints / "single_vs_tp2pp2/a", folder / "gpu_ckpt")
        shutil.copytree(checkpoints / "single_vs_tp2pp2/b", folder / "npu_ckpt")
        shutil.copytree(checkpoints / "tp_rank_missing/b", folder / "incomplete_ckpt")
        profiles = REPOSITORY / "tests/data/perf"
        shutil.copytree(example / "profiles/before_ascend_pt", folder / "before_ascend_pt")
        shutil.copytree(example / "profiles/after_ascend_pt", folder / "after_ascend_pt")
        shutil.copy(profiles / "gpu_npu_opmap/base.pt.trace.json", folder / "gpu.pt.trace.json")
        shutil.copytree(REPOSITORY / "tests/data/nan_analyze/p2p_chain", folder / "nan_dump")
        for side in ("npu", "bench"):
            shutil.copytree(REPOSITORY / "tests/data/recheck" / side, folder / (side + "_tensors"))
        for run in ("run_a", "run_b"):
            shutil.copytree(REPOSITORY / "tests/data/rl_compare/rl_collect" / run, folder / run)
        shutil.copytree(REPOSITORY / "tests/data/grad_probe/compare/a", folder / "grad_npu")
        shutil.copytree(REPOSITORY / "tests/data/grad_probe/compare/b", folder / "grad_gpu")
        shutil.copytree(REPOSITORY / "tests/data/rl_tokens/run", folder / "rl_run")
        shutil.copytree(REPOSITORY / "tests/data/response_anomaly/toy", folder / "responses")
        for side in ("npu", "gpu"):
            shutil.copy(REPOSITORY / "tests/data/accuracy/precision_compare" / (side + ".csv"), folder / (side + "_details.csv"))
        shutil.copytree(REPOSITORY / "tests/data/accuracy/run_ut_statistics", folder / "operators_dump")
        monitor_data.Run(modules=10, steps=40, ranks=2, drift=(3, 35), poison=(7, 1, 38)).write(folder / "watched_run")
        return folder, self.environment(folder)

    @staticmethod
    def environment(folder):
        (folder / "bin").mkdir()
        (folder / "bin/msprobe").symlink_to(MSPROBE)
        (folder / "bin/python3").symlink_to(sys.executable)
        return dict(os.environ, PATH="%s:%s" % (folder / "bin", os.environ["PATH"]), LC_ALL="C.UTF-8", TERM="dumb",
                    PYTHONPATH=str(MSPROBE.parent.parent / "python"))  # as if the wheel were installed

    def check_tool(self, command):
        script, *flags = shlex.split(command)
        path = REPOSITORY / script
        self.assertTrue(os.access(path, os.X_OK), "%s is no program" % script)
        for flag in flags:
            if flag.startswith("--"):
                self.assertIn(flag, path.read_text(encoding="utf-8"), "%s does not know %s" % (script, flag))

    def quickstart_comparison(self):
        text = (REPOSITORY / "tools/quickstart.sh").read_text(encoding="utf-8")
        arguments = re.search(r'^build/bin/msprobe (compare .*?) *\\?$', text, re.M).group(1)
        values = dict(re.findall(r"^(\w+)=(\S+)$", text, re.M))
        return "msprobe " + re.sub(r'"?\$(\w+)(/\w+)?"?', lambda m: values[m.group(1)] + (m.group(2) or ""), arguments)

    def check_block(self, steps, folder, environment, where):
        commands, expectations = [], []
        for command, expected in steps:
            if re.match(r"(\./)?(tools/|\.ci/)", command):
                self.check_tool(command)
                if command != "tools/quickstart.sh" or not expected:
                    continue
                command = self.quickstart_comparison()
                expected = [line for line in expected if not line.startswith("==")]
                report = next((i for i, line in enumerate(expected) if re.search(r"^/.*example_output.*\.xlsx$", line)), None)
                expected = expected[:report]
            commands.append(command)
            expectations.append(expected)
        if not commands:
            return
        results = run_block(commands, folder, environment)
        self.assertEqual(len(results), len(commands), "%s: the block ended early" % where)
        for i, (lines, status) in enumerate(results):
            if page_tests.NO_PAGES in "\n".join(lines):
                print("skipped from here on: %s: %s" % (where, page_tests.NO_PAGES))
                return
            with self.subTest(where=where, command=commands[i]):
                shown = i + 1 < len(commands) and commands[i + 1] == "echo $?"
                self.assertTrue(status == 0 or shown, "exit status %d:\n%s" % (status, "\n".join(lines)))
                expected = [normalize(line, folder) for line in expectations[i]]
                while expected and expected[-1] == "":
                    expected.pop()
                # A busy machine takes longer than a second, and is told how far it is.
                actual = [normalize(line, folder) for line in lines if not PROGRESS.match(line)]
                while actual and actual[-1] == "":
                    actual.pop()
                if expected:
                    self.assertTrue(matches(expected, actual), "the document shows\n%s\n\nthe command printed\n%s" %
                                    ("\n".join(expected), "\n".join(actual)))

    def test_examples(self):
        ran = 0
        for path in documents():
            blocks = console_blocks(path) if not path.name.endswith(".zh.md") else []  # equal to the English ones: test docs.translations
            if not blocks or RUN_BY_ANOTHER_TEST in path.read_text(encoding="utf-8") or (NEEDS_PYTORCH in path.read_text(encoding="utf-8") and not has_pytorch()):
                continue
            folder, environment = self.prepare(str(path.relative_to(REPOSITORY)).replace("/", "_"))
            for number, steps in blocks:
                self.check_block(steps, folder, environment, "%s:%d" % (path.relative_to(REPOSITORY), number))
                ran += len(steps)
        print("documentation examples: %d commands" % ran)
        self.assertGreater(ran, 0)

    def test_the_lines_of_the_table_of_commands_run(self):
        """Each line of README's table, its words replaced by files of that kind. No more is wanted than that it runs."""
        folder, environment = self.prepare("table")
        (folder / "train.py").write_text("print('trained')\n")
        (folder / "monitor.json").write_text('{"xy_distribution": true}')
        (folder / "config.json").write_text('{"task": "free_benchmark", "dump_path": "unstable", "free_benchmark": {}}')
        (folder / "merge.yaml").write_text("api:\n  - Module\ncompare_index:\n  - Cosine\n")
        subprocess.run([str(MSPROBE), "compare", "npu_dump", "bench_dump", "-o", "one", "-q"], cwd=folder, check=True)
        (folder / "results").mkdir()
        for rank, table in enumerate(2 * list((folder / "one").glob("compare_result_*.xlsx"))):
            shutil.copy(table, folder / ("results/compare_result_rank%d_20250101000000.xlsx" % rank))
        words = {"NPU": "npu_dump", "BENCH": "bench_dump", "DUMP": "npu_tensors", "GOOD": "bench_tensors", "CALL": "Functional.gelu.0", "CKPT": "gpu_ckpt",
                 "REFERENCE": "npu_ckpt", "RESULTS": "results", "PATH": "npu_dump", "RUN": "watched_run", "DIR": "one", "REQUESTS": "responses/requests.jsonl",
                 "NPU.zip": "docs/example/config_check/npu.zip", "GPU.zip": "docs/example/config_check/gpu.zip", "PROFILE": "before_ascend_pt",
                 "TRACES": "docs/example/hang", "A.json": "docs/example/bisect/good.json", "B.json": "docs/example/bisect/bad.json"}
        special = {"nan_analyze": {"DUMP": "nan_dump/step0"}, "parse": {"DUMP": "kernel_dump/dumps"}, "perf_compare": {"REFERENCE": "after_ascend_pt"},
                   "grad_compare": {"RUN": "grad_npu", "REFERENCE": "grad_gpu"}, "rl_compare": {"RUN": "run_a", "REFERENCE": "run_b"},
                   "run_ut": {"DUMP": "operators_dump"}, "graph": {"DUMP": "npu_dump"}, "isolate": {"GOOD": "modules_dump"}}
        shutil.copytree(REPOSITORY / "tests/data/dump/cnn_tensor_mix/dump", folder / "modules_dump")
        tables = [re.findall(r"^\| \[`msprobe ([^`]+)`\]\([^)]+\)(.*?) \| ", (REPOSITORY / name).read_text(encoding="utf-8"), re.M)
                  for name in ("README.md", "README.zh.md")]
        self.assertEqual(*tables)
        self.assertGreater(len(tables[0]), 20)
        for command, rest in tables[0]:
            known = dict(words, **special.get(command, {}))
            line = [str(MSPROBE)] + command.split() + [known.get(word, word) for word in re.sub(r"\[.*?\]", "", rest).split()]
            with self.subTest(line=" ".join(line)):
                self.assertNotIn(True, [word.isupper() and word.isalpha() for word in line[1:]], "no file for it")
                if command == "serve":  # until it is asked to end
                    server = subprocess.Popen(line, cwd=folder, env=environment, stdout=subprocess.PIPE, universal_newlines=True)
                    self.assertIn("http://", server.stdout.readline())
                    server.terminate()
                    server.communicate(timeout=60)
                    continue
                run = subprocess.run(line, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     timeout=300, universal_newlines=True, check=False)
                if page_tests.NO_PAGES in run.stdout:
                    self.skipTest(page_tests.NO_PAGES)
                self.assertEqual(run.returncode, 0, run.stdout)

    def test_commands_stand_in_executed_blocks(self):
        for path in documents():
            inside = None
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                fence = re.match(r"\s*```(\w*)", line)
                if fence:
                    inside = None if inside is not None else fence.group(1)
                elif line.startswith("$ msprobe"):
                    self.assertEqual(inside, "console", "%s:%d: examples belong into ```console blocks" % (path.name, number))

    def test_pages_spell_flags_in_one_way(self):
        """The name of a flag or its letter. Other spellings are those of the Python tools: their command lines, and the commands made for them."""
        tree = json.loads(subprocess.run([MSPROBE, "help", "--format", "json"], stdout=subprocess.PIPE, check=True).stdout)
        seen = 0
        for path in documents():
            if not (path.is_relative_to(REPOSITORY / "docs") or path.parent == REPOSITORY) or path.name.startswith(("msaccucmp", "parse_")):
                continue
            for block in re.findall(r"^```(?:console|sh)\n(.*?)^```", path.read_text(encoding="utf-8"), re.S | re.M):
                for line in re.findall(r"^(?:\$ )?msprobe (?!-f pytorch )(.*)$", block, re.M):
                    if " -tp " in line or "--treads" in line:  # the command line of 26.x; a typo that the page shows
                        continue
                    command, known = tree, set()
                    line = re.sub(r"'[^']*'|\"[^\"]*\"", "TEXT", line)
                    for word in re.sub(r"[|;&>].*| # .*", "", line.partition(" -- ")[0]).split():
                        known |= {spelling for flag in command["flags"] for spelling in (flag["name"], flag["letter"])}
                        below = [sub for sub in command["subcommands"] if sub["command"].split()[-1] == word]
                        if below:
                            command = below[0]
                        elif word.startswith("-"):
                            with self.subTest(page=path.name, line=line):
                                self.assertIn(word.partition("=")[0], known | {"-h", "--help"})
                            seen += 1
        self.assertGreater(seen, 50)

    def test_links_resolve(self):
        followed = 0
        for path in documents():
            text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.S)
            for target in re.findall(r"\]\(([^)\s]+)\)", text):
                if re.match(r"[a-z]+:", target):
                    continue
                place, _, anchor = target.partition("#")
                file = (path.parent / place) if place else path
                with self.subTest(document=str(path.relative_to(REPOSITORY)), link=target):
                    self.assertTrue(file.exists(), "the link leads nowhere")
                    if anchor and file.suffix == ".md":
                        self.assertIn(anchor, anchors_of(file))
                followed += 1
        self.assertGreater(followed, 0)

    def test_every_command_has_its_page_and_stands_in_both_indexes(self):
        listing = subprocess.run([MSPROBE, "help", "--format", "json"], stdout=subprocess.PIPE, check=True).stdout
        titles = titles_below(json.loads(listing))
        self.assertIn("msprobe monitor diff", titles)
        pages = {title: "commands/%s.md" % "_".join(title.split()[1:]) for title in titles}
        docs = REPOSITORY / "docs"
        self.assertEqual(sorted(pages.values()), sorted("commands/" + path.name for path in (docs / "commands").iterdir() if not path.name.endswith(".zh.md")))
        for title, page in pages.items():
            with self.subTest(command=title):
                self.assertEqual((docs / page).read_text(encoding="utf-8").splitlines()[0], "# " + title)
        for index in ("README.md", "README.zh.md"):
            text = (docs / index).read_text(encoding="utf-8")
            listed = re.findall(r"^\| \[`(msprobe [^`]+)`\]\((commands/[^)]+)\)", text, re.M)
            with self.subTest(index=index):
                self.assertEqual([(title, page.replace(".zh.md", ".md")) for title, page in listed], list(pages.items()))

    def test_both_languages_have_the_same_sections_and_links(self):
        for folder in (REPOSITORY, REPOSITORY / "docs"):
            texts = [(folder / name).read_text(encoding="utf-8") for name in ("README.md", "README.zh.md")]
            sections = [len(re.findall(r"^## ", text, re.M)) for text in texts]
            links = [sorted({target.partition("#")[0].replace(".zh.md", ".md") for target in re.findall(r"\]\(([^)\s]+)\)", text)})
                     for text in texts]
            with self.subTest(folder=folder.name):
                self.assertEqual(sections[0], sections[1])
                self.assertEqual(links[0], links[1])

    def test_every_page_stands_in_both_indexes(self):
        docs = REPOSITORY / "docs"
        for index in ("README.md", "README.zh.md"):
            text = (docs / index).read_text(encoding="utf-8")
            linked = {(docs / target.partition("#")[0]).resolve() for target in re.findall(r"\]\(([^)\s]+)\)", text)}
            for page in sorted(docs.rglob("*.md")):
                is_chinese, has_chinese = page.name.endswith(".zh.md"), page.with_name(page.stem + ".zh.md").exists()
                wanted = is_chinese or not has_chinese if index == "README.zh.md" else not is_chinese
                if wanted and (page.parent != docs or not page.name.startswith("README")):
                    with self.subTest(index=index, page=str(page.relative_to(docs))):
                        self.assertIn(page.resolve(), linked)


def titles_below(command):
    """"msprobe compare" and so on: all commands, groups included, in the order of the help."""
    return [title for below in command["subcommands"] for title in [below["command"]] + titles_below(below)]


def anchors_of(path):
    anchors = set()
    for line in path.read_text(encoding="utf-8").splitlines():
        heading = re.match(r"#+ +(.*)", line)
        if heading:
            text = re.sub(r"[`*]", "", heading.group(1)).strip().lower()
            anchors.add(re.sub(r" ", "-", re.sub(r"[^\w\- ]", "", text)))
    return anchors


if __name__ == "__main__":
    MSPROBE, REPOSITORY = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    unittest.main(argv=sys.argv[:1]+sys.argv[3:], verbosity=2)
