#!/usr/bin/env python3
"""Writes what follows from the program's own tables: in docs/ the flags of each command and the list of commands, and the functions of
the Python package, tools/python/msprobe/_commands.py (see python_api.py).

usage: tools/dev/update_flag_tables.py [--check] MSPROBE [REPOSITORY]

Each command has the page docs/commands/<name>.md, with underscores for blanks (docs/commands/monitor_diff.md). What is between two
marks is replaced. In the page of a command, by `msprobe help COMMAND --format markdown`:

    <!-- flags of msprobe monitor diff -->
    ...
    <!-- end of flags -->

In docs/README.md, by one row per command, below the headings of the help:

    <!-- commands -->
    ...
    <!-- end of commands -->

In docs/README.md and docs/README.zh.md, by config/questions.json, which `msprobe help which` shows:

    <!-- questions -->
    ...
    <!-- end of questions -->

In docs/how-to/which-operator-check.md, by what the help of these commands says:

    <!-- operator checks -->
    ...
    <!-- end of operator checks -->

--check writes nothing: exit status 1 when a table is stale, a command has no page, a page has no command, or a table of flags stands on
another command's page.

Tables of configuration keys ("| key | ... | default | ...") are checked in both cases, against the rows of src/**/settings.cpp as the
capture library beside the program writes and lists them: keys that are missing, keys that do not exist, and other defaults are findings.
"""
import ctypes
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import python_api  # noqa: E402
from update_translations import Pages  # noqa: E402

FLAGS = re.compile(r"(<!-- flags of (msprobe[\w ]*) -->\n).*?(<!-- end of flags -->)", re.S)
COMMANDS = re.compile(r"(<!-- commands -->\n).*?(<!-- end of commands -->)", re.S)
QUESTIONS = re.compile(r"(<!-- questions -->\n).*?(<!-- end of questions -->)", re.S)
CHECKS = re.compile(r"(<!-- operator checks -->\n).*?(<!-- end of operator checks -->)", re.S)
QUESTION_HEADS = {"README.md": ("en", "| question | command | guide |", ", "), "README.zh.md": ("zh", "| 问题 | 命令 | 文档 |", "、")}
# Other names of a command; their pages refer to it and repeat no table.
OTHER_NAMES = {"msprobe data2db", "msprobe graph_visualize", "msprobe overflow_check"}


def is_group(command):
    """Whether it is nothing but a group of subcommands."""
    return bool(command["subcommands"]) and command["usage"].endswith(" COMMAND")


def all_below(command):
    """The commands below `command`, groups included, in the order of the help."""
    return [found for below in command["subcommands"] for found in [below] + all_below(below)]


def page_of(title):
    """"msprobe monitor diff" -> "monitor_diff.md"."""
    return "_".join(title.split()[1:]) + ".md"


def command_list(program, commands):
    titles = {topic["commands"][0]: topic["title"] for topic in program["topics"]}
    rows = []
    for command in commands:
        if command["command"] in titles:
            rows.append("| **%s** | |" % titles[command["command"]])
        rows.append("| [`%s`](commands/%s) | %s |" % (command["command"], page_of(command["command"]), command["summary"].split("\n")[0]))
    return "\n".join(["| command | what it does |", "|---|---|"] + rows)


def question_table(rows, name, docs, pages):
    language, head, comma = QUESTION_HEADS[name]

    def page(guide):
        return pages.chinese_link(docs / "README.md", guide["page"]) if language == "zh" else guide["page"]

    lines = [head, "|---|---|---|"]
    for row in rows:
        guides = comma.join("[%s](%s)" % (guide[language], page(guide)) for guide in row["guides"])
        lines.append("| %s | %s | %s |" % (row["question"][language], "<br>".join("`%s`" % command for command in row["commands"]), guides))
    return "\n".join(lines)


def check_table(commands, aliases):
    rows = ["| [`%s`](../commands/%s) | %s |" % (command["command"], page_of(command["command"]), command["when"]) for command in commands
            if command["when"] and command["command"] not in aliases]
    return "\n".join(["| command | when |", "|---|---|"] + rows)


class Text(ctypes.Structure):
    """msprobe_text of include/msprobe/capture.h."""
    _fields_ = [("data", ctypes.c_char_p), ("length", ctypes.c_size_t)]

    def __init__(self, text):
        super().__init__(text.encode("utf-8"), len(text.encode("utf-8")))


def settings_of(library):
    """What the library makes of an empty configuration: {page: {key: default}}, without the keys that have none."""
    overrides, none, torch = Text('{"dump_path": "required"}'), Text(""), Text("pytorch")
    pointer, text = ctypes.c_void_p(), ctypes.c_char_p()
    library.msprobe_capture_settings.restype = library.msprobe_monitor_settings.restype = ctypes.c_char_p
    found = {}
    if library.msprobe_capture_open(none, overrides, torch, ctypes.byref(pointer)) == 0:
        found["docs/commands/dump.md"] = json.loads(library.msprobe_capture_settings(pointer))
        library.msprobe_capture_close(pointer)
    if library.msprobe_free_benchmark_settings(none, overrides, torch, ctypes.byref(text)) == 0:
        found["docs/commands/free_benchmark.md"] = json.loads(text.value)
    if library.msprobe_monitor_open(none, none, torch, ctypes.byref(pointer)) == 0:
        found["docs/formats/monitor_config.md"] = json.loads(library.msprobe_monitor_settings(pointer))
        library.msprobe_monitor_close(pointer)
    return found


def keys_of(msprobe, section):
    """The keys that the message about an unknown one lists: of the top level (""), or of a task's section."""
    unknown = {"-" * 40: 1}
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder) / "config.json"
        config.write_text(json.dumps({"task": section, "dump_path": folder, section: unknown} if section else unknown), encoding="utf-8")
        told = subprocess.run([msprobe, "dump", "--check", str(config)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    listed = re.search(r"valid here: (.*)", told.stdout.decode("utf-8"))
    return set(listed.group(1).split(", ")) if listed else set()


def documented_keys(text):
    """(key, default as the page spells it) of every table with a column "default"."""
    column = None
    for line in text.split("\n"):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip().strip("|"))] if line.startswith("|") else []
        if not cells:
            column = None
        elif cells[0].startswith("key"):
            column = cells.index("default") if "default" in cells else None
        elif column is not None and cells[0].startswith("`"):
            keys = re.findall(r"`([\w.]+)`", cells[0])
            defaults = cells[column].split(", ") if len(keys) > 1 else [cells[column]]
            for place, key in enumerate(keys):
                yield key, defaults[min(place, len(defaults) - 1)]


def spells(default, value):
    """Whether a page's default means this value. Words such as "all" and objects, whose keys have rows of their own, are not judged."""
    said = default.split("`")[1] if default.startswith("`") else default
    try:
        said = json.loads(said)
    except ValueError:
        return said == value or not default.startswith("`")
    # Statistics that are always there follow those that a list names.
    return isinstance(said, dict) or said == value or (bool(said) and isinstance(said, list) and value[:len(said)] == said)


def check_settings(msprobe, root):
    """Findings in the tables of keys; none where there is no library that Python can load, as in builds with sanitizers."""
    try:
        defaults = settings_of(ctypes.CDLL(str(Path(msprobe).parent.parent / "lib/libmsprobe_capture.so")))
    except (OSError, AttributeError):
        return []
    sections = ("statistics", "tensor", "structure", "overflow_check", "nan_check")
    known = {"docs/commands/dump.md": set().union(*(keys_of(msprobe, section) for section in ("",) + sections)) - set(sections),
             "docs/commands/free_benchmark.md": keys_of(msprobe, "free_benchmark")}
    # Sections of other tasks, and keys for MindSpore's static graphs, are in the text; so is fuzz_level, which has one value.
    elsewhere = {"free_benchmark", "run_ut", "grad_probe", "acc_check", "exception_dump", "monitor", "device", "file_format", "check_mode",
                 "fuzz_level"}
    findings = []
    for page, values in defaults.items():
        documented = dict(documented_keys((root / page).read_text(encoding="utf-8")))
        keys = known.get(page) or set(values)
        findings += ["%s: the key %s is missing" % (page, key) for key in sorted(keys - set(documented) - elsewhere)]
        findings += ["%s: the default of %s is %s, not %s" % (page, key, json.dumps(values[key]), default)
                     for key, default in documented.items() if key in values and not spells(default, values[key])]
        if page in known and known[page]:
            findings += ["%s: there is no key %s" % (page, key) for key in documented if key not in keys]
    return findings


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    check = len(arguments) < len(sys.argv) - 1
    if len(arguments) not in (1, 2):
        sys.exit(__doc__)
    msprobe = str(Path(arguments[0]).resolve())
    root = Path(arguments[1] if len(arguments) > 1 else Path(__file__).parent / "../..").resolve()

    def ask(*words):
        return subprocess.run([msprobe, "help", *words], stdout=subprocess.PIPE, check=True).stdout.decode("utf-8")

    program = json.loads(ask("--format", "json"))
    commands = all_below(program)
    questions = json.loads((root / "config/questions.json").read_text(encoding="utf-8"))
    with_flags = {command["command"] for command in commands if not is_group(command)} - OTHER_NAMES
    findings, shown, has_list = [], set(), False
    pages_in_two = Pages(root)
    for page in sorted((root / "docs").rglob("*.md")):
        name, text = page.relative_to(root), page.read_text(encoding="utf-8")
        language = ("--lang", "zh") if page.name.endswith(".zh.md") else ()

        def table(match, name=name, language=language):
            title = match.group(2)
            if title not in with_flags:
                findings.append("%s: %s has no flags of its own" % (name, title))
                return match.group(0)
            if str(name).replace(".zh.md", ".md") != "docs/commands/" + page_of(title):
                findings.append("%s: the flags of %s belong into docs/commands/%s" % (name, title, page_of(title)))
            if language == ():
                shown.add(title)
            return "%s\n%s\n%s" % (match.group(1), ask(*title.split()[1:], "--format", "markdown", *language), match.group(3))

        fresh = FLAGS.sub(table, text)
        if str(name) == "docs/README.md":
            fresh, lists = COMMANDS.subn(lambda match: "%s\n%s\n\n%s" % (match.group(1), command_list(program, commands), match.group(2)), fresh)
            has_list = lists == 1
        if name.parent == Path("docs") and name.name in QUESTION_HEADS:
            fresh, tables = QUESTIONS.subn(lambda match: "%s\n%s\n\n%s" % (match.group(1), question_table(questions, name.name, root / "docs", pages_in_two), match.group(2)),
                                           fresh)
            if tables != 1:
                findings.append("%s: no marks for the table of questions" % name)
        if str(name) == "docs/how-to/which-operator-check.md":
            aliases = program["topics"][-1]["commands"]
            fresh = CHECKS.sub(lambda match: "%s\n%s\n\n%s" % (match.group(1), check_table(commands, aliases), match.group(2)), fresh)
        if fresh != text:
            if check:
                findings.append("%s: stale, run tools/dev/update_flag_tables.py" % name)
            else:
                page.write_text(fresh, encoding="utf-8")
                print("wrote %s" % name)
    functions = root / "tools/python/msprobe/_commands.py"
    fresh = python_api.source({command["command"]: command for command in commands})
    if fresh != functions.read_text(encoding="utf-8"):
        if check:
            findings.append("%s: stale, run tools/dev/update_flag_tables.py" % functions.relative_to(root))
        else:
            functions.write_text(fresh, encoding="utf-8")
            print("wrote %s" % functions.relative_to(root))
    if not has_list:
        findings.append("docs/README.md: no marks for the list of commands")
    findings += ["docs/commands/%s: missing" % page_of(title) for title in sorted(with_flags - shown)]
    titles = {page_of(command["command"]) for command in commands}
    pages = {page.name for page in (root / "docs/commands").glob("*.md") if not page.name.endswith(".zh.md")}
    findings += ["docs/commands/%s: missing" % name for name in sorted(titles - pages - {page_of(t) for t in with_flags - shown})]
    findings += ["docs/commands/%s: there is no such command" % name for name in sorted(pages - titles)]
    if questions != json.loads(ask("which", "--format", "json")):
        findings.append("config/questions.json: the program was built with another one")
    for row in questions:
        for command in row["commands"]:
            if not any(command.startswith(known["command"] + " ") or command == known["command"] for known in commands):
                findings.append("config/questions.json: there is no command %s" % command)
    findings += check_settings(msprobe, root)
    print("\n".join(findings + ["docs: %d commands, %d tables of flags, %d findings" % (len(commands), len(shown), len(findings))]))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
