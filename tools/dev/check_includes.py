#!/usr/bin/env python3
"""Holds every #include against the plan of the components.

usage: tools/dev/check_includes.py [REPOSITORY]

Checked in src/, include/ and tests/ (see docs/design/architecture.md):
  1. "src/<component>/..." only along the arrows of cmake/Components.cmake, which holds the only list of them; tests may use any component
  2. the arrows themselves form no cycle, and no file includes itself through others
  3. quoted includes are spelled from the root ("src/..." or "msprobe/...") and name files that exist
  4. third-party headers stay in the component that owns them (the list below)
  5. a component has one namespace, its path; no header is there for one file alone
  6. files that comments name exist: "gates.h" in the component or anywhere, "docs/formats/profiles.md" at that place; and those that tables in READMEs of components name
  7. the table of components in docs/design/architecture.md shows the same arrows, and that in src/README.md every component
  8. files are opened for reading in src/base/files.cpp, and in tools/python/msprobe/_files.py: what opens an input in another
     way would wait for a FIFO that somebody laid in its place (the list below says what opens files of its own)
Exit status 0 only if nothing was found.
"""
import os
import re
import sys

# Header prefix -> files or folders that may include it. Everything else of ours goes through those components.
THIRD_PARTY_HOMES = {
    "CLI/": ["src/commands/flag_parser.cpp"],
    "spdlog/": ["src/base/log.cpp"],
    "hwy/": ["src/kernels/"],
    "libdeflate.h": ["src/kernels/", "src/io/"],
    "sqlite3.h": ["src/database/", "src/analysis/graph/database.cpp", "src/analysis/monitor/store/store.cpp"],
    "openssl/": ["src/online/openssl_library.h"],
    "event2/": ["src/serve/http_server.cpp"],
    "zlib.h": ["src/io/", "src/profile/", "src/report/"],
    "expat.h": ["src/report/"],
    "rapidjson/": ["src/json/"],
    "toml++/": ["src/json/"],
    "yaml-cpp/": ["src/json/"],
    "pcre2.h": ["src/base/"],
    "xxhash.h": ["src/capture/tensor_files.cpp"],
    # Seconds of compiling in each file: sources that walk a tree include it, and few headers.
    "nlohmann/json.hpp": ["src/"],
    "nlohmann/json_fwd.hpp": ["src/json/document.h"],
    "gtest/": [],
    "gmock/": [],
    "benchmark/": [],
    "dlfcn.h": ["src/commands/kernel_dump_commands.cpp", "src/device/", "src/monitor/sqlite_api.cpp",
                "src/online/openssl_library.cpp"],
}
# What opens a file in C++; calls that only write, and those of folders, are not inputs.
OPENING = re.compile(r"\bstd::i?fstream\b|\b(?:std::|::)?(?:fopen|open64|gzopen|sqlite3_open(?:_v2)?)\(|::open(?:at)?\(|\bopen_v2\("
                     r"|\bSSL_CTX_use_\w+_file\b|\bSSL_CTX_load_verify_locations\b|\bX509_load_\w+_file\b")
NO_INPUT = re.compile(r"O_PATH|O_DIRECTORY|O_WRONLY|O_CREAT|kFolderFlags|SQLITE_OPEN_CREATE|kOpenCreate|\"/(?:proc|sys)/")
# Openings of a file that this program has just made, or of one that it goes on writing to.
OWN_FILES = {"src/monitor/writer.cpp", "src/database/sqlite_file.cpp", "src/monitor/sqlite_api.h"}
PYTHON_OPENING = re.compile(r"(?<![\w.])open\(|\bos\.open\(|\bnp\.load\(|\btorch\.load\(|\bread_(?:text|bytes)\(\)")
PYTHON_NO_INPUT = re.compile(r"\"[awx]b?\"|O_WRONLY|O_CREAT")
# With /proc and the paths of rules, which no one else can choose.
PYTHON_OWN_FILES = {"tools/python/msprobe/_files.py", "tools/python/msprobe/_accuracy/confine.py", "tools/python/msprobe/_intercept/functions.py",
                    "tools/python/msprobe/pytorch/compile_check/alone.py"}
COMMENT = re.compile(r'R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|(?P<comment>//[^\n]*)', re.S)
# A file of this repository: sources and pages by any part of their path, other files by their path from the root.
NAMED_FILE = re.compile(r"(?<![\w./*<-])((?:[\w-]+/)*[\w-]+\.(?:h|cpp|md|cmake))\b(?![\w(])"
                        r"|(?<![\w./])((?:src|docs|tools|tests|cmake|config|include)/[\w./-]*\w)")
FOREIGN_FILES = {"sqlite3.h"}
NAMESPACE = re.compile(r"^namespace msprobe::([\w:]+) \{", re.M)
# Headers that one file includes: two files that would be too long as one, or a library behind a header of its own.
HEADERS_OF_ONE_FILE = {
    "src/analysis/config_check/result_json.h", "src/analysis/graph/database.h", "src/analysis/graph/shard_merge.h",
    "src/capture/log_writer.h",
    "src/kernels/codes-inl.h", "src/kernels/digest-inl.h", "src/kernels/matrix_product-inl.h", "src/kernels/ratios-inl.h", "src/monitor/row_builder.h",
    "src/online/openssl_library.h",
    "src/profile/ascend_text/trace.h"}
# Components with another namespace.
OTHER_NAMESPACES = set()
INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
SOURCE_ENDINGS = (".h", ".cpp", ".cc", ".inc")


def read_plan(root):
    """cmake/Components.cmake's list "component:used used" as {component: set of components}."""
    text = open(os.path.join(root, "cmake/Components.cmake"), encoding="utf-8").read()
    body = re.search(r"set\(MSPROBE_COMPONENTS\s(.*?)\n\)", text, re.S)
    if body is None:
        sys.exit("cmake/Components.cmake: found no set(MSPROBE_COMPONENTS ...)")
    plan = {}
    for entry in re.findall(r'"([^"]*)"', body.group(1)):
        component, _, uses = entry.partition(":")
        plan[component] = set(uses.split())
    return plan


def source_files(root):
    for top in ("src", "include", "tests"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith(SOURCE_ENDINGS):
                    yield os.path.relpath(os.path.join(folder, name), root)


def room_of(path, plan):
    """The component a path below src/ belongs to; None for src/main.cpp and files outside the components."""
    inner = path[len("src/"):]
    candidates = [component for component in plan if inner.startswith(component + "/")]
    return max(candidates, key=len) if candidates else None


def find_cycle(edges):
    """A path a, b, ..., a in {node: iterable of nodes}, or None. Iterative: include chains may be long."""
    done = set()
    for start in sorted(edges):
        if start in done:
            continue
        path, on_path = [start], {start}
        stack = [iter(sorted(edges[start]))]
        while stack:
            following = next(stack[-1], None)
            if following is None:
                stack.pop()
                on_path.discard(path[-1])
                done.add(path.pop())
            elif following in on_path:
                return path[path.index(following):] + [following]
            elif following not in done and following in edges:
                path.append(following)
                on_path.add(following)
                stack.append(iter(sorted(edges[following])))
    return None


def check_file(root, path, plan, say):
    """Reports what breaks the plan in one file; returns the repository files it includes."""
    component = room_of(path, plan) if path.startswith("src/") else None
    free = path.startswith("tests/") or path == "src/main.cpp"
    if path.startswith("src/") and component is None and path != "src/main.cpp":
        say(path, 1, "this file is in no component of cmake/Components.cmake")
    used = set()
    for number, line in enumerate(open(os.path.join(root, path), encoding="utf-8"), 1):
        match = INCLUDE.match(line)
        if match is None:
            continue
        quoted, angled = match.groups()
        header = quoted or angled
        if quoted and header.startswith("src/"):
            target = room_of(header, plan)
            if target is None:
                say(path, number, '"%s" is in no component' % header)
            elif path.startswith("include/"):
                say(path, number, "the public face may not include src/")
            elif not free and target != component and target not in plan.get(component, ()):
                say(path, number, "%s may not use %s (cmake/Components.cmake has no such arrow)" % (component, target))
        if header.startswith(("src/", "msprobe/")):
            place = header if header.startswith("src/") else "include/" + header
            generated = header == "msprobe/version.h"
            if not generated and not os.path.exists(os.path.join(root, place)):
                say(path, number, '"%s" does not exist' % header)
            used.add(place)
            if not quoted:
                say(path, number, "our own headers are included with quotes")
        elif quoted and not os.path.exists(os.path.join(root, header)):
            say(path, number, '"%s" is not spelled from the repository\'s root' % header)
        elif quoted:
            used.add(header)
        if not path.startswith("tests/"):
            for prefix, homes in THIRD_PARTY_HOMES.items():
                if header.startswith(prefix) and not any(path.startswith(home) for home in homes):
                    say(path, number, "<%s> belongs to %s only" % (header, ", ".join(homes) or "tests"))
    return used


def check_named_files(root, path, known, say):
    """Comments of one file against `known`, the paths of the repository."""
    text = open(os.path.join(root, path), encoding="utf-8").read()
    for match in COMMENT.finditer(text):
        for named in NAMED_FILE.findall(match.group("comment") or ""):
            name = named[0] or named[1]
            beside = os.path.normpath(os.path.join(os.path.dirname(path), name))
            if name in FOREIGN_FILES or beside in known or name in known or os.path.exists(os.path.join(root, name)):
                continue
            if not any(other.endswith("/" + name) for other in known):
                say(path, text.count("\n", 0, match.start()) + 1, "no file is called %s" % name)


def repository_files(root):
    """Paths of the files that comments may name."""
    found = set()
    for top in ("src", "include", "tests", "docs", "tools", "cmake", "config"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            found.update(os.path.relpath(os.path.join(folder, name), root) for name in names)
    return found


def check_namespaces(root, path, plan, say):
    """src/analysis/ckpt/ is msprobe::analysis::ckpt; `internal` may stand below, `resources` are embedded files."""
    component = room_of(path, plan) if path.startswith("src/") else None
    if component is None or component in OTHER_NAMESPACES:
        return
    own = component.replace("/", "::")
    text = open(os.path.join(root, path), encoding="utf-8").read()
    for match in NAMESPACE.finditer(text):
        if match.group(1) not in (own, own + "::internal", own + "::" + os.path.basename(os.path.dirname(path)), "resources"):
            say(path, text.count("\n", 0, match.start()) + 1, "the namespace of this component is msprobe::" + own)


def check_headers(includes, say):
    """A header is for another folder, for a test, or for two sources at least: what one file alone needs stands in that file."""
    users = {}
    for path, used in includes.items():
        for header in used:
            users.setdefault(header, set()).add(path)
    for header in sorted(path for path in includes if path.startswith("src/") and path.endswith(".h")):
        others = users.get(header, set()) - {header[:-2] + ".cpp"}
        needed = len(others) > 1 or {os.path.dirname(user) for user in others} - {os.path.dirname(header)}
        if not needed and header not in HEADERS_OF_ONE_FILE:
            say(header, 1, "one file alone includes this header: its content belongs there")
        if needed and header in HEADERS_OF_ONE_FILE:
            say("tools/dev/check_includes.py", 1, "%s has other users: take it out of HEADERS_OF_ONE_FILE" % header)


def check_readmes(root, say):
    """The first cells of tables in the READMEs of components name files and folders that exist."""
    for folder, _, names in os.walk(os.path.join(root, "src")):
        if "README.md" not in names:
            continue
        path = os.path.join(folder, "README.md")
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        for number, line in enumerate(lines, 1):
            if not line.startswith("| `"):
                continue
            for name in re.findall(r"`([\w./-]+)`", line.split(" | ")[0]):
                place = os.path.join(folder, name)
                if not any(os.path.exists(place + ending) for ending in ("", ".h", ".cpp", "_command.cpp", "_commands.cpp", ".cu")):
                    say(os.path.relpath(path, root), number, "no file or folder is called %s" % name)


def statement_at(text, at):
    """From `at` to the end of the statement, or of the line where that is a longer way."""
    ends = [end for end in (text.find(";", at), text.find("{", at)) if end >= 0]
    return text[at:min(ends, default=len(text))]


def check_openings(root, say):
    for path in source_files(root):
        if not path.startswith("src/") or path.startswith("src/base/") or path in OWN_FILES:
            continue
        text = open(os.path.join(root, path), encoding="utf-8").read()
        for match in OPENING.finditer(text):
            line = text[text.rfind("\n", 0, match.start()) + 1:text.find("\n", match.start())]
            if not NO_INPUT.search(statement_at(text, match.start())) and not line.lstrip().startswith("//"):
                say(path, text.count("\n", 0, match.start()) + 1,
                    "%s opens an input by itself: base::InputFile does it (src/base/files.h)" % match.group().strip("("))
    for folder, _, names in os.walk(os.path.join(root, "tools/python/msprobe")):
        for path in sorted(os.path.relpath(os.path.join(folder, name), root) for name in names if name.endswith(".py")):
            text = open(os.path.join(root, path), encoding="utf-8").read()
            for match in PYTHON_OPENING.finditer(text) if path not in PYTHON_OWN_FILES else ():
                call = text[match.start():text.find(")\n", match.start())].partition("\n\n")[0]
                if not PYTHON_NO_INPUT.search(call):
                    say(path, text.count("\n", 0, match.start()) + 1,
                        "%s opens an input by itself: _files.read_text does it" % match.group().strip("("))


def check_documented_plan(root, plan, say):
    """The table "| `component` | used, used | ..." of the architecture page against the plan."""
    page = "docs/design/architecture.md"
    shown = {}
    for number, line in enumerate(open(os.path.join(root, page), encoding="utf-8"), 1):
        row = re.match(r"\| `([\w/]+)` \| ([^|]*) \|", line)
        if row is not None:
            component, uses = row.group(1), row.group(2)
            shown[component] = set() if uses == "nothing of ours" else set(uses.split(", "))
            if component in plan and shown[component] != plan[component]:
                say(page, number, "%s uses %s in cmake/Components.cmake" % (component, ", ".join(sorted(plan[component])) or "nothing"))
    for component in sorted(set(plan) ^ set(shown)):
        say(page, 1, "%s is %s" % (component, "missing in the table" if component in plan else "not on the plan"))


def check_listed_components(root, plan, say):
    """src/README.md: a row per folder; components of analysis/ stand in one row."""
    page = "src/README.md"
    text = open(os.path.join(root, page), encoding="utf-8").read()
    for component in sorted(plan):
        shown = "`%s/`" % (component.partition("/")[2] or component)
        if shown not in text:
            say(page, 1, "%s is missing in the table" % component)


def main():
    root = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "../.."))
    plan = read_plan(root)
    findings = []
    say = lambda path, number, text: findings.append("%s:%d: %s" % (path, number, text))
    unknown = sorted({used for uses in plan.values() for used in uses} - set(plan))
    if unknown:
        say("cmake/Components.cmake", 1, "arrows to components that are not on the list: %s" % ", ".join(unknown))
    cycle = find_cycle(plan)
    if cycle:
        say("cmake/Components.cmake", 1, "the arrows form a circle: %s" % " -> ".join(cycle))
    check_readmes(root, say)
    check_documented_plan(root, plan, say)
    check_listed_components(root, plan, say)
    check_openings(root, say)
    includes = {path: check_file(root, path, plan, say) for path in source_files(root)}
    known = repository_files(root)
    for path in includes:
        check_named_files(root, path, known, say)
        check_namespaces(root, path, plan, say)
    check_headers(includes, say)
    cycle = find_cycle(includes)
    if cycle:
        say(cycle[0], 1, "includes itself: %s" % " -> ".join(cycle))
    for line in findings:
        print(line)
    print("includes: %d files, %d components, %d findings" % (len(includes), len(plan), len(findings)))
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
