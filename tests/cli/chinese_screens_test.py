#!/usr/bin/env python3
"""A screen in Chinese holds no English sentence.

usage: chinese_screens_test.py MSPROBE REPOSITORY [--list] FILE.test...

The help of every command, and what every command of the transcripts (transcript_test.py) shows, good and bad use alike, under a
Chinese locale. Their checks are of the English screen and are not looked at here. A sentence is SENTENCE words of English, one behind
the other, in what is left of a line without quotations, code, paths, flags and links. What may stay is listed in STAYS: what other
programs say, and texts that the Python tool writes. --list prints the lines that would fail, each once, and is for translators.

Between the shell and msprobe stands this script, called as msprobe: it keeps what the program shows, and hands it on.
"""
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SENTENCE = 3
# What is for programs is English in every language.
FOR_PROGRAMS = re.compile(r"^--(json|example|lines)$|^(json|csv|jsonl|man|markdown|github)$|^--format=(json|csv|jsonl|man|markdown)|^--lang=en$|^en$|^--annotations$")
# Commands that print files for programs, whatever their flags.
PRINTING = {"completion"}
QUOTED = re.compile(r"(?<!\w)msprobe(?: [a-z_0-9]+)*|\x1b\[[0-9;]*[A-Za-z]|\x1b\]8;[^\x1b]*\x1b\\|`[^`]*`|\"[^\"]*\"|'[^']*'|<[^>]*>|\{[^}]*\}|\[[^\]]*\]|https?:\S+|(?<![\w/])[\w.~*-]*/\S*|(?<!\w)-{1,2}[A-Za-z]\S*|[A-Za-z_]*[\w]*[_.=@*]\S*")
WORD = re.compile(r"[A-Za-z][a-z]+(?:'[a-z]+)?$")
# Closed: lines of other programs, examples of commands, names of several words, and what is said when memory is short.
STAYS = [re.compile(text) for text in r"""
^ *msprobe( |$)
^用法：
Model Profiling Time Distribution
SKIP\.$
^(#|\||\$ |// )
Thousandths? Err Ratio
^(Top|Error) Item Table$
^Op Type  Op Name  Task ID
Rule Anomaly\w+ reports anomaly signal in
^Traceback \(most recent call last\)
^ModuleNotFoundError:
^bash: warning:
Error while parsing
^error: out of memory$
^ *hint: use fewer --threads;
""".strip().split("\n")]


def sentences(text):
    """The lines of a screen that hold English."""
    found = []
    for line in text.splitlines():
        if any(pattern.search(line) for pattern in STAYS):
            continue
        run = best = 0
        for word in re.sub("  +", " , ", QUOTED.sub(" , ", line)).split():
            run = run + 1 if WORD.match(word.rstrip(",.;:)").lstrip("(")) else 0
            best = max(best, run)
            if word[-1:] in ",.;:)":
                run = 0
        if best >= SENTENCE:
            found.append(line.strip())
    return found


def is_screen(arguments):
    own = arguments[:arguments.index("--")] if "--" in arguments else arguments
    return not any(FOR_PROGRAMS.match(argument) for argument in own) and not (own and own[0] in PRINTING)


def stand_between():
    """As msprobe: runs it, keeps what it shows."""
    process = subprocess.Popen([os.environ["MSPROBE_REAL"], *sys.argv[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: process.send_signal(received))
    stdout, stderr = process.communicate()
    if is_screen(sys.argv[1:]):
        handle, _ = tempfile.mkstemp(dir=os.environ["MSPROBE_SCREENS"])
        with os.fdopen(handle, "w") as file:
            json.dump([sys.argv[1:], (stdout + stderr).decode("utf-8", "replace")], file)
    sys.stdout.buffer.write(stdout)
    sys.stderr.buffer.write(stderr)
    return process.returncode if process.returncode >= 0 else 128 - process.returncode


def all_commands(command):
    return [command["command"].split()[1:]] + [found for below in command["subcommands"] for found in all_commands(below)]


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--list"]
    msprobe, repository = Path(arguments[0]).resolve(), Path(arguments[1]).resolve()
    sys.path.insert(0, str(repository / "tests/cli"))
    import transcript_test  # noqa: E402
    cases = [case for file in arguments[2:] for case in transcript_test.parse(Path(file))]
    with tempfile.TemporaryDirectory(prefix="msprobe_zh_") as folder:
        screens, programs = Path(folder) / "screens", Path(folder) / "bin"
        screens.mkdir()
        programs.mkdir()
        os.symlink(Path(__file__).resolve(), programs / "msprobe")
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MSPROBE_")}
        environment.update(PATH="%s:%s" % (programs, os.environ["PATH"]), EXAMPLE=str(repository / "docs/example"), TERM="dumb",
                           DATA=str(repository / "tests/data"), LC_ALL="zh_CN.UTF-8", MSPROBE_REAL=str(msprobe), MSPROBE_SCREENS=str(screens))

        def run(case):
            with tempfile.TemporaryDirectory(prefix="msprobe_zh_case_") as scratch:
                for command, _, _ in case.steps:
                    if "--lang en" in command or "LC_ALL=" in command:
                        continue
                    subprocess.run(["bash", "-c", command], cwd=Path(scratch).resolve(), env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=transcript_test.TIMEOUT_SECONDS, check=False)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(run, cases))
        shown = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(screens.iterdir())]
        table = json.loads(subprocess.run([msprobe, "help", "--format", "json"], stdout=subprocess.PIPE, check=True).stdout)
        for words in all_commands(table):
            help_text = subprocess.run([msprobe, *words, "--help"], stdout=subprocess.PIPE, env=dict(environment, COLUMNS="1000"), check=True).stdout
            shown.append([words + ["--help"], help_text.decode("utf-8")])
        which = subprocess.run([msprobe, "help", "which"], stdout=subprocess.PIPE, env=environment, check=True).stdout
        shown.append([["help", "which"], which.decode("utf-8")])
    english = {}
    for words, text in shown:
        for line in sentences(text):
            english.setdefault(line, words)
    for line, words in sorted(english.items()):
        print("%s\t%s" % (line, " ".join(words)) if "--list" in sys.argv else "msprobe %s\n    shows in English: %s" % (" ".join(words), line))
    if "--list" not in sys.argv:
        print("screens in Chinese: %d, lines with English sentences: %d" % (len(shown), len(english)))
    return 1 if english or len(shown) < 50 else 0


if __name__ == "__main__":
    sys.exit(stand_between() if Path(sys.argv[0]).name == "msprobe" else main())
