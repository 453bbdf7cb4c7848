"""What may differ between two runs of one command, and the comparison of everything else.

MASKS is the list: times, durations and rates, process numbers, addresses. Nothing that is computed from an input is in it.
"""
import io
import re
import sqlite3
import sys
import tempfile
import zipfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))
import event_file  # noqa: E402
import page_blocks  # noqa: E402

MASKS = [(re.compile(pattern), replacement) for pattern, replacement in [
    # Stamps: in names of results, in texts, in the settings of workbooks.
    (rb"(?<!\d)20\d{12}(?!\d)(_\d+(?=[._]))?", b"<stamp>"),  # and the number of a second one in one second
    (rb"\b[A-Z][a-z]{2}[0-3]\d_[0-2]\d-[0-5]\d-[0-6]\d\b", b"<stamp>"),
    (rb"(?<!\d)1[6-9]\d{17}(?!\d)", b"<nanoseconds>"),
    (rb"\bbatch_compare_\d{10}\b", b"batch_compare_<stamp>"),
    (rb"(?<=\.)(msprobe-)?\d+(-\d+)?(?=\.(tmp|partial)\b)", b"<process>"),
    (rb"tfevents\.\d+\.[\w.-]+\.\d+\.\d+", b"tfevents.<time>.<host>.<process>.<number>"),
    (rb"(?<!\d)20\d\d-?[01]\d-?[0-3]\d[T _][0-2]\d:?[0-5]\d:?[0-6]\d([.,]\d+)?(Z|[+-]\d\d:?\d\d)?", b"<time>"),
    # How long something took or ago is, and how fast that was: in an answer, in its JSON, in a JUnit report.
    (rb"\b\d+ min +\d+ s\b", b"<duration>"),
    (rb"\bin (<duration>|[\d.]+ (s|ms|us))(, [\d.]+ [kMGT]?B/s)?\)", b"in <duration>)"),
    ("用时 ".encode() + rb"(<duration>|[\d.]+ (s|ms|us))(, [\d.]+ [kMGT]?B/s)?", b"in <duration>"),
    (rb'"(\w+_)?seconds": [\d.e+-]+', b'"seconds": <duration>'),
    (rb' time="\d+\.\d+"', b' time="<duration>"'),
    (rb"\bmsprobe_security_\w{8}\b", b"msprobe_security_<name>"),
    # Where `serve` listens: a port that is free, and a new token.
    (rb"(?<=http://)[\w.-]+:\d+/[0-9a-f]{32}/", b"<address>/"),
    (rb"(?<=\bport )\d+\b", b"<port>"),
    # Progress, told where a call takes longer than a moment.
    (rb"(?m)^[a-z][\w ]*: +\d+ % \([^\n]*\)\n", b""),
]]
NAME_MASKS = MASKS[:7]


def mask_text(data):
    for pattern, replacement in MASKS:
        data = pattern.sub(replacement, data)
    return data


def mask_name(name):
    data = name.encode("utf-8", "surrogateescape")
    for pattern, replacement in NAME_MASKS:
        data = pattern.sub(replacement, data)
    return data.decode("utf-8", "replace")


def between(name, first, second):
    """Why the two are not the same, or None."""
    if first == second:
        return None
    if first[:4] == second[:4] == b"PK\3\4":
        return between_archives(first, second)
    if first[:16] == second[:16] == b"SQLite format 3\0":
        return between_texts(database_text(first), database_text(second))
    if ".tfevents." in name:
        return between_texts(*(repr(event_file.parse_events(data)).encode() for data in (first, second)))
    if name.endswith(".html"):
        return between_texts(*(page_blocks.with_plain_blocks(data) for data in (first, second)))
    return between_texts(first, second)


def between_texts(first, second):
    first, second = mask_text(first), mask_text(second)
    if first == second:
        return None
    lines, others = first.split(b"\n"), second.split(b"\n")
    for number, (line, other) in enumerate(zip(lines, others), 1):
        if line != other:
            at = next((i for i, (a, b) in enumerate(zip(line, other)) if a != b), min(len(line), len(other)))
            at = max(0, at - 40)
            return "line %d, byte %d: %r and %r" % (number, at, line[at:at + 120], other[at:at + 120])
    return "%d and %d lines" % (len(lines), len(others))


def between_archives(first, second):
    """Members by name and content; the times of members do not count."""
    archives = [zipfile.ZipFile(io.BytesIO(data)) for data in (first, second)]
    names = [archive.namelist() for archive in archives]
    if [mask_name(name) for name in names[0]] != [mask_name(name) for name in names[1]]:
        return "members %s and %s" % (names[0][:20], names[1][:20])
    for name, other in zip(*names):
        reason = between(name, archives[0].read(name), archives[1].read(other))
        if reason:
            return "member %s: %s" % (name, reason)
    return None


def database_text(data):
    with tempfile.NamedTemporaryFile(suffix=".db") as file:
        file.write(data)
        file.flush()
        connection = sqlite3.connect(file.name)
        try:
            connection.text_factory = bytes
            return "\n".join(dump_tables(connection)).encode("utf-8", "surrogateescape")
        finally:
            connection.close()


def dump_tables(connection):
    for kind, name, text in connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY rowid"):
        yield "%r %r %r" % (kind, name, text)
        if kind == b"table":
            for row in connection.execute('SELECT * FROM "%s"' % name.decode().replace('"', '""')):
                yield repr(row)
