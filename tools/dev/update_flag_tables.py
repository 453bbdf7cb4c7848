#!/usr/bin/env python3
"""Writes the tables in docs/ that follow from the program's own tables: the flags of each command, and the list of commands.

usage: tools/dev/update_flag_tables.py [--check] MSPROBE [REPOSITORY]

Each command has the page docs/commands/<name>.md, with underscores for blanks (docs/commands/monitor_diff.md). What is between two
marks is replaced. In the page of a command, by `msprobe help COMMAND --format markdown`:

    <!-- flags of msprobe monitor diff -->
    ...
    <!-- end of flags -->

In docs/README.md, by one row per command:

    <!-- commands -->
    ...
    <!-- end of commands -->

--check writes nothing: exit status 1 when a table is stale, a command has no page, a page has no command, or a table of flags stands on
another command's page.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

FLAGS = re.compile(r"(<!-- flags of (msprobe[\w ]*) -->\n).*?(<!-- end of flags -->)", re.S)
COMMANDS = re.compile(r"(<!-- commands -->\n).*?(<!-- end of commands -->)", re.S)
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


def command_list(commands):
    rows = ["| [`%s`](commands/%s) | %s |" % (command["command"], page_of(command["command"]), command["summary"].split("\n")[0])
            for command in commands]
    return "\n".join(["| command | what it does |", "|---|---|"] + rows)


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    check = len(arguments) < len(sys.argv) - 1
    if len(arguments) not in (1, 2):
        sys.exit(__doc__)
    msprobe = str(Path(arguments[0]).resolve())
    root = Path(arguments[1] if len(arguments) > 1 else Path(__file__).parent / "../..").resolve()

    def ask(*words):
        return subprocess.run([msprobe, "help", *words], stdout=subprocess.PIPE, check=True).stdout.decode("utf-8")

    commands = all_below(json.loads(ask("--format", "json")))
    with_flags = {command["command"] for command in commands if not is_group(command)} - OTHER_NAMES
    findings, shown, has_list = [], set(), False
    for page in sorted((root / "docs").rglob("*.md")):
        name, text = page.relative_to(root), page.read_text(encoding="utf-8")

        def table(match):
            title = match.group(2)
            if title not in with_flags:
                findings.append("%s: %s has no flags of its own" % (name, title))
                return match.group(0)
            if str(name) != "docs/commands/" + page_of(title):
                findings.append("%s: the flags of %s belong into docs/commands/%s" % (name, title, page_of(title)))
            shown.add(title)
            return "%s\n%s\n%s" % (match.group(1), ask(*title.split()[1:], "--format", "markdown"), match.group(3))

        fresh = FLAGS.sub(table, text)
        if str(name) == "docs/README.md":
            fresh, lists = COMMANDS.subn(lambda match: "%s\n%s\n\n%s" % (match.group(1), command_list(commands), match.group(2)), fresh)
            has_list = lists == 1
        if fresh != text:
            if check:
                findings.append("%s: stale, run tools/dev/update_flag_tables.py" % name)
            else:
                page.write_text(fresh, encoding="utf-8")
                print("wrote %s" % name)
    if not has_list:
        findings.append("docs/README.md: no marks for the list of commands")
    findings += ["docs/commands/%s: missing" % page_of(title) for title in sorted(with_flags - shown)]
    titles = {page_of(command["command"]) for command in commands}
    pages = {page.name for page in (root / "docs/commands").glob("*.md")}
    findings += ["docs/commands/%s: missing" % name for name in sorted(titles - pages - {page_of(t) for t in with_flags - shown})]
    findings += ["docs/commands/%s: there is no such command" % name for name in sorted(pages - titles)]
    print("\n".join(findings + ["docs: %d commands, %d tables of flags, %d findings" % (len(commands), len(shown), len(findings))]))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
