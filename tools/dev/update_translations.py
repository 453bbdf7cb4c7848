#!/usr/bin/env python3
"""Keeps the Chinese pages of docs/ in step with the English ones: NAME.zh.md beside NAME.md.

usage: tools/dev/update_translations.py [--check] [REPOSITORY]

Only prose is translated. The rest of a Chinese page follows from the English one, and is written here:

  - blocks of code, in their order; a line "@@" in a new translation stands for the next block. Comments of ```sh blocks may be translated
  - what stands between <!-- flags of ... --> and <!-- end of flags -->; tools/dev/update_flag_tables.py then writes it in Chinese
  - tables that other tools write into English pages (GENERATED), cell by cell by tools/dev/table_words.zh.json; names stay
  - links: [text](page.md#heading) becomes the Chinese page, if there is one, and its heading of the same number
  - the line that names both languages, below the title of both pages

--check writes nothing: exit status 1 when one of these is stale, when headings (number and level), links, rows of tables or the code in
their first cells differ, when the flags that the text names differ, when a cell of a generated table has no translation, or when a page of
docs/, how-to/, commands/ or formats/ has none. English alone are docs/performance.md, the design pages and the files of the root but README.
"""
import json
import os
import re
import sys
from pathlib import Path

FENCE = re.compile(r"^([ ]*)```(\w*)[^\n]*\n.*?^\1```[ ]*$", re.S | re.M)
FLAGS = re.compile(r"<!-- flags of (msprobe[\w ]*) -->\n.*?<!-- end of flags -->", re.S)
MARKS = re.compile(r"^<!-- (?:needs|run by)[^\n]*-->$", re.M)
LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s]+)\)")
HEADING = re.compile(r"^(#+) +(.*)$", re.M)
# Folders whose pages must have a translation, and pages in them that need none.
TRANSLATED = ("docs", "docs/how-to", "docs/commands", "docs/formats")
ENGLISH_ALONE = ("docs/performance.md",)
# Tables that tools write: the mark in front of them, and how many of their first columns are names.
GENERATED = re.compile(r"<!-- (limits|fuzzed|results)(?:: begin)? -->\n.*?<!-- (?:end of \1|\1: end) -->", re.S)
COLUMNS_OF_NAMES = {"limits": 0, "fuzzed": 2, "results": 3}
WORDS = Path(__file__).parent / "table_words.zh.json"
UNITS = ((r"([\d,]+) times", r"\1 倍"), (r"([\d,]+) bytes", r"\1 字节"), (r"([\d,]+) of ([\d,]+) \((\d+ %)\)", r"\2 中的 \1（\3）"))


def slug(heading):
    """The anchor of a heading, as GitHub makes it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r" ", "-", re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", text).strip().lower()))


def without_code(text):
    return FENCE.sub("", FLAGS.sub("", text))


def headings(text):
    """[(level, anchor)] outside of code."""
    return [(len(marks), slug(words)) for marks, words in HEADING.findall(FENCE.sub("", text))]


def same_code(english, chinese):
    """Whether two blocks say the same: in ```sh blocks comments may be translated."""
    def plain(block):
        return [re.sub(r"\s+# .*$", "", line).strip() for line in block.split("\n") if not re.match(r"\s*# ", line)]
    return english == chinese or (english.lstrip().startswith("```sh\n") and plain(english) == plain(chinese))


def language_lines(page):
    """What stands below the titles of NAME.md and NAME.zh.md."""
    return "**English** | [中文](%s.zh.md)" % page.stem, "[English](%s) | **中文**" % page.name


def with_language_line(text, line):
    """`text` with the line below its title, in place of one that is there."""
    title, _, rest = text.partition("\n")
    rest = re.sub(r"\A\n*(?:\*\*English\*\* \| \[中文\]|\[English\]\([^)]*\) \| \*\*中文\*\*)[^\n]*\n", "\n", rest)
    return "%s\n\n%s\n\n%s" % (title, line, rest.lstrip("\n"))


def translated_table(match, words, used, findings):
    """A generated table in Chinese."""
    names, lines = COLUMNS_OF_NAMES[match.group(1)], []
    for line in match.group(0).split("\n"):
        cells = line.split("|")
        is_head = bool(lines) and not lines[-1].startswith("|")
        for place in range(1, len(cells) - 1):
            cell = cells[place].strip()
            number = cell
            for unit, chinese in UNITS:
                number = re.sub("^%s$" % unit, chinese, number)
            if cell in words:
                used.add(cell)
                cells[place] = " %s " % words[cell]
            elif number != cell:
                cells[place] = " %s " % number
            elif line.startswith("|") and re.search("[A-Za-z]", cell) and (is_head or place > names) and not re.search(r"\d [KMGT]iB$", cell):
                findings.append("%s has no word for \"%s\"" % (WORDS.name, cell))
        lines.append("|".join(cells))
    return "\n".join(lines)


class Pages:
    def __init__(self, root):
        self.root = root
        self.words, self.used = json.loads(WORDS.read_text(encoding="utf-8")), set()
        self.text = {path: path.read_text(encoding="utf-8") for path in [*root.glob("*.md"), *(root / "docs").rglob("*.md")]}

    def twin(self, path):
        """The Chinese page of an English one, or None."""
        chinese = path.with_name(path.stem + ".zh.md")
        return chinese if chinese in self.text else None

    def english(self):
        return sorted(path for path in self.text if not path.name.endswith(".zh.md"))

    def target(self, page, link):
        """(page, number of the heading or None) that a link leads to, both of the English page; (text, None) for other places."""
        place, _, anchor = link.partition("#")
        if re.match(r"[a-z]+:", link):
            return link, None
        path = Path(os.path.normpath(page.parent / place)) if place else page
        if path not in self.text:
            return os.path.relpath(path, self.root), None
        anchors = [found for _, found in headings(self.text[path])]
        number = anchors.index(anchor) if anchor in anchors else None if not anchor else "#" + anchor
        if path.name.endswith(".zh.md"):
            path = path.with_name(path.name.replace(".zh.md", ".md"))
        return os.path.relpath(path, self.root), number

    def chinese_link(self, page, link):
        """A link of the English page `page` as its translation has it."""
        if re.match(r"[a-z]+:", link):
            return link
        place, _, anchor = link.partition("#")
        path = Path(os.path.normpath(page.parent / place)) if place else page
        twin = self.twin(path) if path in self.text and not path.name.endswith(".zh.md") else None
        if twin is None:
            return link
        if anchor:
            before, behind = ([found for _, found in headings(self.text[name])] for name in (path, twin))
            if anchor in before and before.index(anchor) < len(behind):
                anchor = behind[before.index(anchor)]
        place = place[:-len(path.name)] + twin.name if place else ""
        return place + ("#" + anchor if anchor else "")

    def translated(self, page):
        """The Chinese page with everything that follows from the English one; and what cannot be brought in line."""
        english, chinese = self.text[page], self.text[self.twin(page)]
        findings = []
        flags = {name: match.group(0) for match in FLAGS.finditer(english) for name in [match.group(1)]}
        # Tables of flags that are translated already stay: update_flag_tables.py checks them.
        chinese = FLAGS.sub(lambda match: match.group(0) if match.group(0).count("\n") > 2 else flags.get(match.group(1), match.group(0)), chinese)
        if [name for name in flags] != [match.group(1) for match in FLAGS.finditer(chinese)]:
            findings.append("other marks for tables of flags")
        tables = {match.group(1): match for match in GENERATED.finditer(english)}
        if sorted(tables) != sorted(match.group(1) for match in GENERATED.finditer(chinese)):
            findings.append("other marks for generated tables")
        else:
            chinese = GENERATED.sub(lambda match: translated_table(tables[match.group(1)], self.words, self.used, findings), chinese)
        blocks = [match.group(0) for match in FENCE.finditer(english)]
        place = re.compile(FENCE.pattern + r"|^@@$", re.S | re.M)
        there = [match.group(0) for match in place.finditer(chinese)]
        if len(blocks) != len(there):
            findings.append("%d blocks of code, %d in the translation" % (len(blocks), len(there)))
        else:
            following = iter(blocks)

            def block(match):
                new = next(following)
                return match.group(0) if match.group(0) != "@@" and same_code(new, match.group(0)) else new
            chinese = place.sub(block, chinese)

        parts = re.split("(" + FENCE.pattern.replace("^([ ]*)", "^(?P<i>[ ]*)").replace(r"^\1", "^(?P=i)").replace(r"(\w*)", r"\w*") + ")", chinese,
                         flags=re.S | re.M)

        def link(match):
            # What leads to a heading of the English page is what a new translation has; what is Chinese already stays.
            return "%s(%s)" % (match.group(1), self.chinese_link(page, match.group(2)))
        chinese = "".join(part if part is None or part.lstrip().startswith("```") else LINK.sub(link, part)
                          for place, part in enumerate(parts) if place % 3 != 2)
        return with_language_line(chinese, language_lines(page)[1]), findings

    def differences(self, page, chinese):
        """What a translation must have in common with its page, beyond what is written here."""
        twin = self.twin(page)
        english = self.text[page]
        findings = []
        levels = [[level for level, _ in headings(text)] for text in (english, chinese)]
        if levels[0] != levels[1]:
            findings.append("headings of the levels %s, in the translation %s" % tuple("".join(map(str, side)) for side in levels))
        links = [sorted(map(str, (self.target(name, link) for _, link in LINK.findall(without_code(text)) if not link.endswith(".zh.md") or name != page)))
                 for name, text in ((page, english), (twin, chinese))]
        links = [[link for link in side if not link.startswith("('%s', None)" % os.path.relpath(page, self.root))] for side in links]
        for number, (mine, other) in enumerate((links, links[::-1])):
            rest = list(other)
            extra = [link for link in mine if link not in rest or rest.remove(link)]
            findings += ["%s the translation has a link to %s" % ("only" if number else "only not", link) for link in extra]
        tables = [[re.findall(r"`[^`]*`", re.split(r"(?<!\\)\|", line)[1]) for line in without_code(text).split("\n") if line.startswith("|")]
                  for text in (english, chinese)]
        if len(tables[0]) != len(tables[1]):
            findings.append("%d rows of tables, %d in the translation" % tuple(map(len, tables)))
        else:
            findings += ["a row of a table names %s, in the translation %s" % (" ".join(a), " ".join(b)) for a, b in zip(*tables) if a != b]
        marks = [MARKS.findall(text) for text in (english, chinese)]
        if marks[0] != marks[1]:
            findings.append("other marks of the tests: %s and %s" % tuple(marks))
        flags = [set(re.findall(r"(?<![\w-])--[a-z][\w-]+", without_code(text))) for text in (english, chinese)]
        findings += ["only %s names %s" % (name, flag) for name, mine, other in (("the page", *flags), ("the translation", *flags[::-1]))
                     for flag in sorted(mine - other)]
        return findings


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    check = len(arguments) < len(sys.argv) - 1
    root = Path(arguments[0] if arguments else Path(__file__).parent / "../..").resolve()
    pages = Pages(root)
    findings, pairs = [], 0
    for page in pages.english():
        twin = pages.twin(page)
        name = os.path.relpath(page, root)
        if twin is None:
            if os.path.dirname(name) in TRANSLATED and name not in ENGLISH_ALONE:
                findings.append("%s: no translation %s.zh.md" % (name, page.stem))
            continue
        pairs += 1
        english = with_language_line(pages.text[page], language_lines(page)[0])
        chinese, unlike = pages.translated(page)
        for path, fresh in ((page, english), (twin, chinese)):
            if fresh != pages.text[path]:
                if check:
                    findings.append("%s: stale, run tools/dev/update_translations.py" % os.path.relpath(path, root))
                else:
                    path.write_text(fresh, encoding="utf-8")
                    print("wrote %s" % os.path.relpath(path, root))
        pages.text[page], pages.text[twin] = english, chinese
        findings += ["%s: %s" % (os.path.relpath(twin, root), finding) for finding in unlike + pages.differences(page, chinese)]
    findings += ["%s: no table has the word \"%s\"" % (WORDS.name, word) for word in pages.words if word not in pages.used]
    print("\n".join(findings + ["docs: %d pages in two languages, %d findings" % (pairs, len(findings))]))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
