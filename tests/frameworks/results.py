#!/usr/bin/env python3
"""What tests with real frameworks found, and the tables that docs/compatibility.md makes of it.

usage: tests/frameworks/results.py [--check | --add FOLDER | --against FOLDER]

Writes the tables into docs/compatibility.md. --check: only says whether they stand there, without an empty cell. --add: first
takes in what tests wrote that ran under MSPROBE_FRAMEWORK_RESULTS=FOLDER. --against: fails if such an answer is worse than the one
that stands there.

results/NAME-VERSION.json: {"framework": NAME, "version": VERSION, "rows": {SUBJECT: {CHECK: ANSWER}}}. ANSWER is "yes", "no" or
"not run: " with the reason. A training has an answer to each of CHECKS; what does not train has one to "works".
"""
import collections
import glob
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
FOLDER = os.path.join(HERE, "results")
PAGE = os.path.join(os.path.dirname(os.path.dirname(HERE)), "docs", "compatibility.md")
BEGIN, END = "<!-- results: begin -->", "<!-- results: end -->"
CHECKS = ("harmless", "true", "leak-free", "leaves nothing", "fault named")   # of a training
WORKS = ("works",)
RANK = {"yes": 2, "not run": 1, "no": 0}


Framework = collections.namedtuple("Framework", "name environment lock module quick title")


def frameworks():
    """The rows of frameworks.txt."""
    found = []
    with open(os.path.join(HERE, "frameworks.txt"), encoding="utf-8") as file:
        for line in file:
            fields = line.split("#")[0].split(None, 5)
            if fields:
                framework = Framework(*fields)
                found.append(framework._replace(quick=framework.quick == "quick", title=framework.title.strip()))
    return found


def name_of(framework, version):
    return "%s-%s.json" % (framework, version)


def collect(folder):
    """{(framework, version): {subject: {check: answer}}} of what test processes wrote. One "no" decides a cell."""
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "*.jsonl"))):
        with open(path, encoding="utf-8") as file:
            for line in file:
                answer = json.loads(line)
                row = found.setdefault((answer["framework"], answer["version"]), {}).setdefault(answer["subject"], {})
                known = row.get(answer["check"])
                if known is None or rank(answer["answer"]) < rank(known):
                    row[answer["check"]] = answer["answer"]
    return found


def rank(answer):
    return RANK[answer.partition(":")[0]]


def load():
    """The same of what is stored."""
    found = {}
    for path in sorted(glob.glob(os.path.join(FOLDER, "*.json"))):
        with open(path, encoding="utf-8") as file:
            stored = json.load(file)
        found[(stored["framework"], stored["version"])] = stored["rows"]
    return found


def store(found):
    """Takes rows in; rows that were not run stay."""
    known = load()
    os.makedirs(FOLDER, exist_ok=True)
    for (framework, version), rows in found.items():
        merged = known.get((framework, version), {})
        for subject, row in rows.items():
            merged.setdefault(subject, {}).update(row)
        path = os.path.join(FOLDER, name_of(framework, version))
        with open(path + ".new", "w", encoding="utf-8") as file:
            json.dump({"framework": framework, "version": version, "rows": merged}, file, indent=1, sort_keys=True)
            file.write("\n")
        os.replace(path + ".new", path)


def worse(found):
    """Sentences about cells that were better when they were stored."""
    known = load()
    for key, rows in found.items():
        for subject, row in rows.items():
            for check, answer in row.items():
                before = known.get(key, {}).get(subject, {}).get(check)
                if before is not None and rank(answer) < rank(before):
                    yield "%s %s, %s, %s: %s, was %s" % (key + (subject, check, answer, before))


def rows_of(works):
    """(title of the framework, version, subject, its row): those of trainings, or those that work."""
    titles = {framework.name: framework.title for framework in frameworks()}
    for (framework, version), rows in sorted(load().items()):
        for subject, row in sorted(rows.items()):
            if ("works" in row) == works:
                yield titles.get(framework, framework), version, subject, row


def table(checks):
    lines = ["| framework | version | what | %s |" % " | ".join(checks), "|---|---|---|" + "---|" * len(checks)]
    for *named, row in rows_of(works=checks == WORKS):
        lines.append("| %s |" % " | ".join(named + [row.get(check, "–") for check in checks]))
    return "\n".join(lines)


def empty_cells():
    """Sentences about checks of a training that were neither run nor left out with a reason."""
    for title, version, subject, row in rows_of(works=False):
        missing = [check for check in CHECKS if check not in row]
        if missing:
            yield "%s %s, %s: no answer to %s" % (title, version, subject, ", ".join(missing))


def page_with_table():
    with open(PAGE, encoding="utf-8") as file:
        page = file.read()
    tables = "%s\n\n%s\n" % (table(CHECKS), table(WORKS))
    return page, re.sub("(?<=%s\n).*?(?=%s)" % (re.escape(BEGIN), re.escape(END)), lambda _: tables, page, flags=re.DOTALL)


def write_table():
    _, page = page_with_table()
    with open(PAGE + ".new", "w", encoding="utf-8") as file:
        file.write(page)
    os.replace(PAGE + ".new", PAGE)


def main():
    if sys.argv[1:] == ["--check"]:
        before, after = page_with_table()
        if before != after or BEGIN not in before:
            sys.exit("error: the tables of docs/compatibility.md are not those of tests/frameworks/results\n"
                     "  hint: tests/frameworks/results.py")
        empty = list(empty_cells())
        if empty:
            sys.exit("error: docs/compatibility.md has empty cells\n  hint: tests/frameworks/run.py --update NAME\n"
                     + "\n".join(empty))
        return
    if len(sys.argv) == 3 and sys.argv[1] == "--against":
        found = list(worse(collect(sys.argv[2])))
        if found:
            sys.exit("error: worse than docs/compatibility.md says:\n" + "\n".join(found))
        return
    if len(sys.argv) == 3 and sys.argv[1] == "--add":
        store(collect(sys.argv[2]))
    elif sys.argv[1:]:
        sys.exit(__doc__)
    write_table()


if __name__ == "__main__":
    main()
