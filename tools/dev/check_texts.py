#!/usr/bin/env python3
"""Holds config/texts.json, the texts of msprobe in Chinese, against the sources.

usage: tools/dev/check_texts.py [--list] [REPOSITORY]

A key of the table is an English text with {0}, {1} where something differs, and "(s)" for a plural (src/report/texts.h). Checked is that

  - key and translation have the same places
  - every key is made of literals of the sources: a key that no source writes any more is stale
  - every literal of the sources below whose text people see is a key, or part of one: a text without a translation is missing

SOURCES lists the files whose texts are complete. In them, literals that are not read are recognised by their form (names of members and
files: lower case with an underscore, a dot or a slash) or listed in NOT_TEXTS. --list prints what is missing in any given files, to
translate them: tools/dev/check_texts.py --list FILE...
"""
import json
import re
import sys
from pathlib import Path

# Files whose texts are all translated.
SOURCES = """
src/report/render_terminal.cpp
src/analysis/compare/document.cpp
src/analysis/compare/summary.cpp
src/analysis/compare/compare.cpp
src/analysis/compare/divergence_origins.cpp
src/analysis/nonfinite/nan_document.cpp
src/analysis/ckpt/document.cpp
src/analysis/perf/document.cpp
src/analysis/perf/findings.cpp
src/analysis/perf/work_groups.cpp
src/analysis/config_check/document.cpp
src/analysis/config_check/env_check.cpp
src/analysis/config_check/hyperparameter_check.cpp
src/analysis/config_check/random_check.cpp
src/analysis/recheck/document.cpp
src/analysis/graph/graph.cpp
src/analysis/grad/grad.cpp
src/analysis/rl/explain.cpp
src/analysis/rl/rl.cpp
src/analysis/isolate/isolate.cpp
src/analysis/repro/repro.cpp
src/analysis/accuracy/check/document.cpp
src/analysis/monitor/diff/diff.cpp
src/analysis/monitor/laws/laws.cpp
src/analysis/monitor/report/report.cpp
""".split()

# Literals of SOURCES that are not texts of ours: names of APIs, dtypes and statistics; words and members of files.
WORDS = """
sqrt rsqrt log2 log10 DataLoader DistributedDataParallel FullyShardedDataParallel Distributed NVIDIA ROCM baddbmm bmm softmax cuda gpu meta amax rms sr entropy
zeros nans infs subnormals Md5 Sheet1 Infinity -Infinity null false agreeing amplification atol chunks command divergence divergent
diverging drifting failing findings grids listing notes origins outcome peaks reason reduced regression scores seconds shape1 shape2 stage
suspicious tag threads timings totals unmeasured unremarkable verdicts abnormal
""".split()
# Columns of files, texts of JUnit reports, names of rules.
PHRASES = """
only in 1
only in 2
bench version
cmp version
Only in benchmark
Only in comparison
pure name
no match stack
only bench have
only cmp have
same elements (%)
first mismatch
max absolute error
max relative error
within 1/1000 (%)
within 1/100 (%)
mean absolute error
NaN个数1
NaN count 1
NaN个数2
NaN count 2
仅一侧为NaN的个数
NaN on one side
first output that is not bit-equal
{} rows are beyond rounding noise; accumulated rounding explains them
{} rows are not bit-equal
{} rows with a tensor file that could not be read
{} rows were compared, {} of the test and {} of the reference have no partner
{} rows are red or fail their threshold, {} are yellow or warnings
rank {}: comparison
beyond its bound
{} nodes are judged errors, first {}
unusual dtype
echo of the step before
optimizer, equal step
parameter of a later step
parameter, other dtype
state of an optimizer
beyond noise
behind an origin
behind an unknown weight
saved value behind a difference
within its bound
module around an unmatched call
unequal input
first unequal bits
unmatched call without a difference
""".strip().split("\n")
NOT_TEXTS = {*WORDS, *PHRASES}
# Keys that the system writes, in the language of the C locale.
OF_THE_SYSTEM = {"File too large", "Input/output error", "Too many open files", "Cannot allocate memory", "no CUDA-capable device is detected", "No such file or directory", "Permission denied", "Is a directory", "Not a directory", "No space left on device", "File exists",
                 "Read-only file system"}

TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\((?P<raw>.*?)\)\1"|"(?P<text>(?:[^"\\\n]|\\.)*)"|\'(?:[^\'\\\n]|\\.[0-9a-f]*)\'|\s+|[^"\'/\s]+|.', re.S)
PLACE = re.compile(r"\{[^{}]*\}")


def literals(source):
    """[(line, text)] of C++; adjacent ones are one."""
    source = re.sub(r"^\s*#[^\n]*", "", source, flags=re.M)
    found, current, line, start = [], None, 1, 1
    for token in TOKEN.finditer(source):
        if token.group("text") is not None:
            if current is None:
                current, start = "", line
            current += token.group("text").replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")
        elif token.group().strip() and not token.group().startswith("//") and current is not None:
            found.append((start, current))
            current = None
        line += token.group().count("\n")
    return found


def is_text(literal):
    bare = PLACE.sub("", literal)
    if not re.search(r"[A-Za-z]{2}", bare) or "\n" in literal or "\\x1b" in literal:  # several lines are the text of a file
        return False
    name = PLACE.sub("x", literal).strip()
    return not (re.fullmatch(r"[\w.\-/:]+", name) and re.search(r"[_./:]|^[a-z]+[A-Z]", name))


def forms(key):
    """A key with and without each of its plurals."""
    return [key] if "(s)" not in key else [form for ending in ("s", "") for form in forms(key.replace("(s)", ending, 1))]


def is_written(piece, every):
    """Whether sources write this: as one literal, or put together of a few."""
    words, begin, parts = piece.split(), 0, 0
    while begin < len(words):
        end = len(words)
        while end > begin and " ".join(words[begin:end]).strip(",;:()") not in every:
            end -= 1
        if end == begin and not words[begin].strip(",;:()s") in every:
            return False
        begin, parts = max(end, begin + 1), parts + 1
    return parts <= max(2, 1 + len(words) // 3)


def main():
    arguments = sys.argv[1:]
    listing = arguments[:1] == ["--list"]
    if listing:
        arguments = arguments[1:]
    repository = Path(__file__).resolve().parents[2] if listing or not arguments else Path(arguments[0])
    texts = json.loads((repository / "config/texts.json").read_text("utf-8"))
    advice = json.loads((repository / "config/advice.json").read_text("utf-8"))
    findings = []
    for key, translation in texts.items():
        if sorted(set(re.findall(r"\{\d\}", key))) != sorted(set(re.findall(r"\{\d\}", translation.replace("=}", "}")))):
            findings.append("config/texts.json: other places in the translation: %s" % key)
    # All forms of the keys, one text: a literal must be in it as a whole, its places taken for any.
    known = {re.sub(r"\{\d\}", "{}", form) for key in texts for form in forms(key)}
    whole = "\n".join(known) + "\n" + "\n".join(re.sub(r"\{\d\}", "{}", row["en"]) for row in advice.values())

    keys = whole.split("\n")

    def is_known(literal):
        # Behind a verdict's word, and without what joins it with its neighbours.
        text = re.sub(r"^[A-Z][A-Z ,]+: ", "", literal)
        around = [piece for piece in (part.strip(" ,;:()") for part in PLACE.split(text)) if piece]
        return PLACE.sub("{}", text).strip() in known or any(all(piece in key for piece in around) for key in keys)

    sources = arguments if listing else SOURCES
    for name in sources:
        for line, literal in literals((repository / name).read_text("utf-8")):
            if is_text(literal) and literal not in NOT_TEXTS and not is_known(literal):
                findings.append("%s:%d: without a translation: %s" % (name, line, json.dumps(literal)))
    if not listing:
        every = "\n".join({text for path in sorted((repository / "src").rglob("*.cpp")) + sorted((repository / "src").rglob("*.h"))
                           for _, text in literals(path.read_text("utf-8")) if re.search("[A-Za-z]{2}", text)})
        # The notes of a help are raw strings, whose lines are joined to paragraphs.
        every += "\n" + "\n".join(re.sub(r"\s+", " ", token.group("raw")) for path in sorted((repository / "src/commands").glob("*.[ch]*"))
                                  for token in TOKEN.finditer(path.read_text("utf-8")) if token.group("raw"))
        every += every.replace("{{", "{").replace("}}", "}") + re.sub(" +", " ", every)
        every += "\n" + (repository / "config/config_check.json").read_text("utf-8")
        for key in sorted(set(texts) - OF_THE_SYSTEM):
            if not any(all(is_written(piece, every) for piece in PLACE.split(form)) for form in forms(key)):
                findings.append("config/texts.json: no source writes this any more: %s" % key)
    for finding in findings:
        print(finding)
    if findings:
        sys.exit("texts: %d findings" % len(findings))
    if not listing:
        print("texts: %d in Chinese, %d sources complete" % (len(texts), len(SOURCES)))


main()
