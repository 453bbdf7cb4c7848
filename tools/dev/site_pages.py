#!/usr/bin/env python3
"""The pages of the site before and behind Sphinx; tools/dev/build_site.sh runs both.

usage: tools/dev/site_pages.py stage LANGUAGE FOLDER     writes the sources of one language, en or zh
       tools/dev/site_pages.py check SITE                follows every link and anchor of the site, and looks for addresses of hosts

The repository is written to be read where it lies, so sources are written anew: docs/README.md is the front page, its tables are the table
of contents, the line of languages leads to the same page of the other language, and links to files that are not pages bring these along.
A page without a translation appears in English on the Chinese site.
"""
import os
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

sys.path.insert(0, str(Path(__file__).parent))
from update_translations import FENCE, LINK, Pages, language_lines  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
TITLES = {"en": {"start": "Start", "Tasks": "Tasks", "Commands": "Commands", "Files": "Files", "Design": "Design"},
          "zh": {"start": "入门", "Tasks": "按任务查找", "Commands": "命令", "Files": "文件格式", "Design": "设计"}}
CHINESE = "[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]"
PLACES = {"docs/README.md": "index.md", "README.md": "about.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md",
          "docs/example/README.md": "example/index.md"}


def place_of(page):
    """Where the page NAME.md (or NAME.zh.md) of the repository is on a site, relative to the folder of its language; None: it is not a page."""
    name = os.path.relpath(page, ROOT).replace(".zh.md", ".md")
    if name in PLACES:
        return PLACES[name]
    return name[len("docs/"):] if name.startswith("docs/") else None


def outside_code(text, change):
    """`text`, of which `change` rewrote everything outside of blocks of code."""
    result, end = [], 0
    for block in FENCE.finditer(text):
        result += [change(text[end:block.start()]), block.group(0)]
        end = block.end()
    return "".join(result + [change(text[end:])])


def stage(language, folder):
    pages = Pages(ROOT)
    shutil.rmtree(folder, ignore_errors=True)
    for page in pages.english():
        place = place_of(page)
        if place is None:
            continue
        twin = pages.twin(page)
        source = twin if language == "zh" and twin else page
        out = folder / place
        up = "../" * (place.count("/") + 1)

        def link(match, page=page, source=source, out=out):
            words, target = match.groups()
            if re.match(r"[a-z]+:", target) or target.startswith("#"):
                return match.group(0)
            if language == "zh":  # an English page leads to the headings of Chinese ones, too
                target = pages.chinese_link(page, target)
            path, _, anchor = target.partition("#")
            file = Path(os.path.normpath(source.parent / path))
            if file in pages.text and place_of(file):
                return "%s(%s%s)" % (words, os.path.relpath(folder / place_of(file), out.parent), "#" + anchor if anchor else "")
            if file.suffix != ".md" and file.is_file():  # a picture or a file of an example comes along
                name = os.path.relpath(file, ROOT)
                copy = folder / (name[len("docs/"):] if name.startswith("docs/") else "files/" + name)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)
                return "%s(%s)" % (words, os.path.relpath(copy, out.parent))
            return words.lstrip("!")[1:-1]  # folders, and what is written for readers of the sources

        text = pages.text[source]
        for line in language_lines(page):
            text = text.replace(line + "\n\n", "", 1)
        other = place.replace(".md", ".html")
        languages = ('**English** | <a href="%szh/%s">中文</a>' if language == "en" else '<a href="%sen/%s">English</a> | **中文**') % (up, other)
        note = "" if source != page or language == "en" else "本页暂无中文版。\n\n"
        title, _, rest = text.partition("\n")
        if language == "zh":  # a line's end is a blank, which has no place between Chinese letters
            rest = outside_code(rest, lambda part: re.sub("(?<=%s)\n(?=%s)" % (CHINESE, CHINESE), "", part))
        text = "%s\n\n%s\n\n%s%s" % (title, languages, note, outside_code(rest.lstrip("\n"), lambda part: LINK.sub(link, re.sub(r"<!--.*?-->\n?", "", part, flags=re.S))))
        if place == "index.md":
            text += contents(pages, page, language)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")


def contents(pages, index, language):
    """The hidden table of contents: pages in the order in which the sections of docs/README.md link them."""
    seen, parts, group, waiting = set(), [], "start", ["about.md"]

    def close():
        if waiting:
            parts.append("\n```{toctree}\n:hidden:\n:caption: %s\n\n%s\n```\n" % (TITLES[language][group], "\n".join(name[:-3] for name in waiting)))

    for line in pages.text[index].split("\n"):
        if line.startswith("## "):
            close()
            waiting, group = [], line[3:]
        for _, target in LINK.findall(line):
            file = Path(os.path.normpath(index.parent / target.partition("#")[0]))
            place = place_of(file) if file in pages.text else None
            if group == "Tasks" and place and place.startswith("commands/"):
                continue  # has its place below
            if place and place not in seen and place != "index.md" and not file.name.endswith(".zh.md"):
                seen.add(place)
                waiting.append(place)
    waiting += [place for place in ("changelog.md",) if place not in seen]
    close()
    return "".join(parts)


class Links(HTMLParser):
    def __init__(self):
        super().__init__()
        self.links, self.names, self.loaded = [], set(), []

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.names |= {values[key] for key in ("id", "name") if values.get(key)}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        self.loaded += [values[key] for key, tags in (("src", ("script", "img", "iframe", "source")), ("href", ("link",)))
                        if tag in tags and values.get(key) and not (tag == "link" and values.get("rel") in ("canonical",))]


def check(site):
    pages = {}
    for path in sorted(site.rglob("*.html")):
        pages[path] = Links()
        pages[path].feed(path.read_text(encoding="utf-8"))
    findings, followed = [], 0
    for path, page in pages.items():
        for target in page.links + page.loaded:
            address = urlsplit(target)
            if address.scheme or address.netloc:
                if target in page.loaded and not target.startswith("data:"):
                    findings.append("%s: loads %s: the site must work without a network" % (path.relative_to(site), target))
                continue
            file = Path(os.path.normpath(path.parent / unquote(address.path))) if address.path else path
            followed += 1
            if not file.is_file():
                findings.append("%s: %s leads nowhere" % (path.relative_to(site), target))
            elif address.fragment and file in pages and unquote(address.fragment) not in pages[file].names:
                findings.append("%s: %s: there is no such anchor" % (path.relative_to(site), target))
    for path in sorted(site.rglob("*.css")):
        findings += ["%s: takes %s: the site must work without a network" % (path.relative_to(site), found)
                     for found in re.findall(r"url\([\"']?((?:https?:|/)[^)\"']*)|^@import[^;]*", path.read_text(encoding="utf-8"), re.M)]
    for path in sorted(site.rglob("*.js")):
        findings += ["%s: is a module, which browsers refuse below file://" % path.relative_to(site)
                     for _ in re.findall(r"^(?:import|export) ", path.read_text(encoding="utf-8"), re.M)]
    for language in ("en", "zh"):
        places = {place_of(page) for page in Pages(ROOT).english()} - {None}
        findings += ["%s/%s: missing" % (language, place) for place in sorted(places) if site / language / place.replace(".md", ".html") not in pages]
    print("\n".join(findings + ["site: %d pages, %d links followed, %d findings" % (len(pages), followed, len(findings))]))
    return 1 if findings or not pages else 0


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "stage" and sys.argv[2] in TITLES:
        stage(sys.argv[2], Path(sys.argv[3]).resolve())
    elif len(sys.argv) == 3 and sys.argv[1] == "check":
        sys.exit(check(Path(sys.argv[2]).resolve()))
    else:
        sys.exit(__doc__)
