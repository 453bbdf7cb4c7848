#!/usr/bin/env python3
"""Writes the tables of flags in docs/ anew, from the tables that the program itself parses by.

usage: tools/dev/update_flag_tables.py [--check] MSPROBE [REPOSITORY]

A table stands between two marks; what is between them is replaced by `msprobe help COMMAND --format markdown`:

    <!-- flags of msprobe monitor diff -->
    ...
    <!-- end of flags -->

--check writes nothing: exit status 1 when a table is stale, when a mark names no command, or when a command has its table nowhere.
"""
import json
import re
import subprocess
import sys
from pathlib import Path

MARKED = re.compile(r"(<!-- flags of (msprobe[\w ]*) -->\n).*?(<!-- end of flags -->)", re.S)
# The same command under a second name.
SECOND_NAMES = {"msprobe data2db", "msprobe overflow_check"}


def leaves(command):
    """Titles of the commands that are no groups of others."""
    if command["subcommands"] and command["usage"].endswith(" COMMAND"):
        return [title for below in command["subcommands"] for title in leaves(below)]
    return [command["command"]] + [title for below in command["subcommands"] for title in leaves(below)]


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    check = len(arguments) < len(sys.argv) - 1
    if len(arguments) not in (1, 2):
        sys.exit(__doc__)
    msprobe = str(Path(arguments[0]).resolve())
    root = Path(arguments[1] if len(arguments) > 1 else Path(__file__).parent / "../..").resolve()

    def ask(*words):
        return subprocess.run([msprobe, "help", *words], stdout=subprocess.PIPE, check=True).stdout.decode("utf-8")

    commands = leaves(json.loads(ask("--format", "json")))
    findings, shown = [], set()
    for page in sorted((root / "docs").rglob("*.md")):
        text = page.read_text(encoding="utf-8")

        def table(match):
            title = match.group(2)
            if title not in commands:
                findings.append("%s: no command is called %s" % (page.relative_to(root), title))
                return match.group(0)
            shown.add(title)
            return "%s\n%s\n%s" % (match.group(1), ask(*title.split()[1:], "--format", "markdown"), match.group(3))

        fresh = MARKED.sub(table, text)
        if fresh != text:
            if check:
                findings.append("%s: stale, run tools/dev/update_flag_tables.py" % page.relative_to(root))
            else:
                page.write_text(fresh, encoding="utf-8")
                print("wrote %s" % page.relative_to(root))
    findings += ["%s: its table of flags is on no page of docs/" % title for title in commands
                 if title not in shown and title not in SECOND_NAMES]
    print("\n".join(findings + ["flag tables: %d commands, %d findings" % (len(shown), len(findings))]))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
