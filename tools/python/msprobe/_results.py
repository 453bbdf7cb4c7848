"""Answers of the program msprobe as Python objects. Nothing is computed here.

A function of `_commands.py` starts the program, which needs no PyTorch, and makes a `Result` of the JSON document that it prints. The
program writes tables and pages to files. Where the caller named no output they are written to a folder that is gone before the function
returns: what `rows()` and `to_html()` need of them is kept in one file without a name, which the system removes with its last user, also
when the process is killed.
"""
from __future__ import annotations

import csv
import html
import importlib
import io
import json
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, NoReturn, Optional, Sequence, Tuple, Union

from msprobe import _files, _program

PathLike = Union[str, "os.PathLike[str]"]
Row = Dict[str, Any]

_FOUND, _USAGE, _INPUT = 1, 2, 3  # exit codes of the program beside 0
_ONCE = ("fail_on", "junit", "repro", "unmatched", "suggest_mapping")   # flags that a second run for a table or a page leaves out
# How lines of the program begin, which speaks the language of the locale: the texts of config/texts.json.
_ERRORS, _HINTS = ("error: ", "错误："), ("hint: ", "提示：")
_MOST_SHOWN = 200   # rows of a table in a notebook, as on a screen
_STAMP = re.compile(r"_?\d{14,}")   # the time of a run in the name of a file
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z")


class MsprobeError(Exception):
    """The program gave no answer.

    message    the program's first complaint, str
    hint       what can be done about it, str, "" where nothing is known
    exit_code  of the program: 2 for arguments, 3 for inputs and outputs, negative for a signal; None where it was not started
    command    the words that were run, list of str
    """

    def __init__(self, message: str, hint: str = "", exit_code: Optional[int] = None, command: Sequence[str] = ()) -> None:
        super().__init__(message + ("\nhint: " + hint if hint else ""))
        self.message = message
        self.hint = hint
        self.exit_code = exit_code
        self.command = list(command)


class UsageError(MsprobeError):
    """An argument that the command does not take (exit code 2)."""


class InputError(MsprobeError):
    """An input that cannot be read, or a result that cannot be written (exit code 3)."""


class Origin:
    """What an answer names first: the call, parameter, setting or operator where it starts.

    label    what kind of thing it is, str: "call", "parameter", ...
    text     which one, str
    file     of the user's code, str, or None
    line     in that file, int from 1 on, or None
    details  {label: text} of what is known about it
    """

    def __init__(self, label: str, text: str, file: Optional[str] = None, line: Optional[int] = None,
                 details: Optional[Mapping[str, str]] = None) -> None:
        self.label = label
        self.text = text
        self.file = file
        self.line = line
        self.details = dict(details or {})

    def __repr__(self) -> str:
        place = " (%s:%s)" % (self.file, self.line) if self.file else ""
        return (self.label + ": " if self.label else "") + self.text + place


@dataclass(frozen=True)
class Command:
    """How one command is called, and what it writes: see the table in tools/dev/python_api.py."""

    words: Tuple[str, ...]
    output: Optional[str] = "folder"       # "folder", the name of a file, or None: it takes no output
    rows: Optional[str] = None             # --format of the files that hold rows
    page: Optional[str] = None             # --format of its page
    stem: str = ""                         # of the names of its files; what is left of a name is that of a table
    default_table: Optional[str] = None    # what rows() gives without a name
    first: Optional[str] = None            # what names it in the answer: "line" (the first), "item", "section", or the column of a table
    own_format: bool = False               # a file of rows is not a list of rows: _READERS knows it

    @property
    def name(self) -> str:
        return " ".join(self.words)


class _Kept:
    """Files whose folder is gone: their bytes, one behind the other, in a file without a name."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="msprobe_")
        self._places: Dict[str, Tuple[int, int]] = {}

    def __del__(self) -> None:
        self._file.close()

    def add(self, name: str, path: Path) -> None:
        start = self._file.seek(0, os.SEEK_END)
        with _files.open_regular(path, mode="rb") as source:
            shutil.copyfileobj(source, self._file, 1 << 20)
        self._places[name] = (start, self._file.tell() - start)

    def names(self) -> List[str]:
        return list(self._places)

    def text(self, name: str) -> str:
        start, size = self._places[name]
        self._file.flush()
        parts = []
        while size > 0:
            part = os.pread(self._file.fileno(), size, start)
            if not part:
                break
            parts.append(part)
            start, size = start + len(part), size - len(part)
        return b"".join(parts).decode("utf-8-sig", "replace")


class Result:
    """The answer of one command.

    command    its name, str
    verdict    the word, str: "IDENTICAL", "DIFFERENT", ...; "" where the command judges nothing
    text       the first line of the answer, str
    first      Origin: where it starts; None where nothing was found
    exit_code  of the program, int: 0; 1 where a level of `fail_on` was found
    levels     {level of fail_on: whether it was found}, dict of str to bool
    counts     {label: text} of what was looked at, dict of str to str
    next       what to do now, list of sentences
    warnings   list of sentences
    files      what was written to `output`, list of pathlib.Path; empty without one
    document   the whole answer, dict: docs/formats/answer_json.md

    In a notebook it is shown as its verdict, its origin and its tables.
    """

    def __init__(self, spec: Command, run: Callable[[str], _Kept], formats: Sequence[str], document: Dict[str, Any],
                 kept: Optional[_Kept] = None) -> None:
        verdict = document.get("verdict") or {}
        self._spec = spec
        self._run = run          # once more, for files of one format
        self._formats = formats  # those that the command was asked for
        self._kept = kept
        self.document = document
        self.command: str = document.get("command", spec.name)
        self.verdict: str = verdict.get("word", "")
        self.text: str = verdict.get("text", "")
        self.exit_code: int = document.get("exit_code", 0)
        self.levels: Dict[str, bool] = {level["word"]: level["found"] for level in document.get("levels", ())}
        self.next: List[str] = list(document.get("next", ()))
        self.warnings: List[str] = list(document.get("warnings", ()))
        self.files: List[Path] = [] if kept is not None else [Path(name) for name in document.get("files", ())]
        self.counts: Dict[str, str] = {item.get("label", ""): item.get("text", "")
                                       for section, block in self._blocks() if section.get("title") == "Counts"
                                       for item in block.get("items", ())}
        self.first: Optional[Origin] = self._find_first()

    # ---- what the answer names first ----

    def _blocks(self) -> Iterator[Tuple[Dict[str, Any], Dict[str, Any]]]:
        for section in self.document.get("sections", ()):
            for block in section.get("blocks", ()):
                yield section, block

    def _find_first(self) -> Optional[Origin]:
        if (self.document.get("verdict") or {}).get("standing") != "findings":
            return None
        how = self._spec.first
        lists = [(section, block["items"]) for section, block in self._blocks() if block.get("items") and section.get("title")]
        if how == "line":
            return Origin("", self.text)
        if how == "item":
            items = [item for _, items in lists for item in items]
            return _origin_of(next((item for item in items if item.get("line")), items[0])) if items else None
        if how == "section" and lists:
            section, items = lists[0]
            place: Row = next((item for item in items if item.get("line")), {})
            return Origin("", section["title"], place.get("file"), place.get("line"),
                          {item.get("label", ""): item.get("text", "") for item in items})
        for _, block in self._blocks():
            if block.get("kind") == "table" and how in block["columns"] and block["rows"]:
                row = dict(zip(block["columns"], block["rows"][0]))
                details = {name: str(cell) for name, cell in row.items() if cell is not None and name != how}
                return Origin(str(how).lower(), str(row[how]), details=details)
        return None

    # ---- tables ----

    @property
    def tables(self) -> List[str]:
        """Names of the tables that `rows` gives."""
        return list(self._tables())

    def records(self, table: Optional[str] = None) -> List[Row]:
        """Rows of a table, list of dict; cells are str, int, float, list or None, as the file has them.

        table: one of `tables`. Without it: the one that the command is about; else all of them, one below the other, where they have
        the same columns (ranks of a comparison; a first column "Table" tells them apart).
        Raises ValueError: no table of this name, or several with different columns.
        """
        tables = self._tables()
        if table is None and self._spec.default_table in tables:
            table = self._spec.default_table
        if table is not None:
            if table not in tables:
                raise ValueError("no table %r; there are: %s" % (table, ", ".join(tables) or "none"))
            return tables[table]()
        parts = {name: read() for name, read in tables.items()}
        if len({tuple(rows[0]) for rows in parts.values() if rows}) > 1:
            raise ValueError("the tables have different columns; name one of: %s" % ", ".join(tables))
        if len(parts) == 1:
            return next(iter(parts.values()))
        return [{"Table": name, **row} for name, rows in parts.items() for row in rows]

    def rows(self, table: Optional[str] = None) -> Any:
        """The same as a pandas.DataFrame where pandas is installed, else as a list of dict: see `records`."""
        records = self.records(table)
        try:
            pandas = importlib.import_module("pandas")
        except ImportError:
            return records
        return pandas.DataFrame(records)

    def _tables(self) -> Dict[str, Callable[[], List[Row]]]:
        spec = self._spec
        if spec.rows is not None:
            files = self._texts(lambda name: _is_rows(name, spec))
            if not files and spec.rows not in self._formats:
                self._kept = self._run(spec.rows)
                files = self._texts(lambda name: _is_rows(name, spec))
            found: Dict[str, Callable[[], List[Row]]] = {}
            for name, text in files.items():
                if spec.own_format:
                    for inner, rows in _READERS[spec.name](json.loads(text())):
                        found[inner] = lambda rows=rows: rows  # type: ignore[misc]
                else:
                    found[self._table_name(name)] = lambda name=name, text=text: _rows_of(name, text())  # type: ignore[misc]
            if found:
                return found
        in_answer = {(section.get("title") or self.command): block for section, block in self._blocks() if block.get("kind") == "table"}
        if in_answer:
            return {title: lambda block=block: [dict(zip(block["columns"], row)) for row in block["rows"]]  # type: ignore[misc]
                    for title, block in in_answer.items()}
        return {self.command: self._statements}

    def _statements(self) -> List[Row]:
        """Of an answer without tables: a row per statement."""
        return [{"section": section.get("title", ""), "label": item.get("label", ""), "text": item.get("text", ""),
                 "file": item.get("file"), "line": item.get("line") or None}
                for section, block in self._blocks() for item in block.get("items", ())]

    def _texts(self, wanted: Callable[[str], bool]) -> Dict[str, Callable[[], str]]:
        """{name of a file: what reads it} of those that there are."""
        found: Dict[str, Callable[[], str]] = {}
        top = os.path.commonpath([path.parent.absolute() for path in self.files]) if self.files else ""
        for path in self.files:
            name = _kept_name(path, top)
            if wanted(name) and path.is_file():
                found[name] = lambda path=path: _text_of(path)  # type: ignore[misc]
        if self._kept is not None and not found:
            for name in filter(wanted, self._kept.names()):
                found[name] = lambda name=name: self._kept.text(name)  # type: ignore[misc]
        return found

    def _table_name(self, file: str) -> str:
        """What tells its file from others: "compare_result_rank0_20260101120000.jsonl" is "rank0"."""
        stem = _STAMP.sub("", file[:file.rindex(".")])
        return (stem.replace(self._spec.stem, "") if self._spec.stem else stem).strip("_") or self.command

    # ---- pages ----

    def to_html(self) -> str:
        """The page of this answer: one HTML document that needs no network. It is what `format="html"` writes; where that was not asked
        for, the command runs once more."""
        if self._spec.page is None:
            return "<!DOCTYPE html><meta charset=utf-8><title>msprobe %s</title>%s" % (html.escape(self.command), self._repr_html_())
        pages = self._texts(_is_page)
        if not pages:
            kept = self._run(self._spec.page)
            pages = {name: lambda name=name: kept.text(name) for name in kept.names() if _is_page(name)}  # type: ignore[misc]
        if not pages:
            raise MsprobeError("%s wrote no page" % self.command)
        return next(iter(pages.values()))()

    def __repr__(self) -> str:
        lines = [self.text or self.verdict or self.command]
        if self.first is not None and self.first.text != self.text:
            lines.append("  %r" % self.first)
        return "\n".join(lines + ["  Next  " + sentence for sentence in self.next])

    def _repr_html_(self) -> str:
        parts = ["<p><b>%s</b></p>" % html.escape(self.text or self.verdict or self.command)]
        for section in self.document.get("sections", ()):
            blocks = list(filter(None, map(_block_html, section.get("blocks", ()))))
            if blocks:
                title = section.get("title")
                parts += ["<p><i>%s</i></p>" % html.escape(title)] if title else []
                parts += blocks
        parts += ["<p>%s</p>" % html.escape(sentence) for sentence in self.next]
        return "\n".join(parts)


def _origin_of(item: Mapping[str, Any]) -> Origin:
    details = {detail.get("label", ""): detail.get("text", "") for detail in item.get("details", ())}
    return Origin(item.get("label", ""), item.get("text", ""), item.get("file") if item.get("line") else None, item.get("line") or None,
                  details)


# ---- files ----

def _kept_name(path: PathLike, folder: PathLike) -> str:
    """Of a file of a result, which may be in a folder of its rank."""
    return os.path.relpath(path, folder).replace(os.sep, "_")


def _text_of(path: Path) -> str:
    with _files.open_regular(path, mode="rb") as file:
        text: str = file.read().decode("utf-8-sig", "replace")
        return text


def _is_page(name: str) -> bool:
    return name.endswith(".html")


def _is_rows(name: str, spec: Command) -> bool:
    if name == "summary.json":
        return False
    return name.endswith({"json": (".jsonl",), "csv": (".csv",)}[spec.rows or "json"] if not spec.own_format else ".json")


def _rows_of(name: str, text: str) -> List[Row]:
    if name.endswith(".jsonl"):
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    return [{key: _cell(value) for key, value in row.items()} for row in csv.DictReader(io.StringIO(text, newline=""))]


def _cell(text: Any) -> Any:
    """A cell of a .csv file, which has no types: numbers as numbers, None for an empty one."""
    if not isinstance(text, str) or not text:
        return None
    if not _NUMBER.match(text):
        return text
    return int(text) if text.lstrip("+-").isdigit() else float(text)


def _checkpoint_rows(document: Dict[str, Any]) -> Iterator[Tuple[str, List[Row]]]:
    if "parameters" in document:
        yield "parameters", document["parameters"]


def _check_rows(document: Dict[str, Any]) -> Iterator[Tuple[str, List[Row]]]:
    if "checks" not in document:
        return
    yield "findings", document.get("findings", [])
    yield "checks", [{key: value for key, value in check.items() if key != "rows"} for check in document["checks"]]
    for check in document["checks"]:
        yield check["check"], check.get("rows", [])


def _anomaly_rows(document: Dict[str, Any]) -> Iterator[Tuple[str, List[Row]]]:
    rows = []
    for rank, operators in document.items():
        for operator in operators if isinstance(operators, list) else ():
            data = operator.get("data_info") or {}
            rows.append({"rank": int(rank[len("rank_"):]) if rank[len("rank_"):].isdigit() else None, "op_name": operator.get("op_name"),
                         "input_args": data.get("input_args"), "input_kwargs": data.get("input_kwargs"), "output": data.get("output"),
                         "stack_info": operator.get("stack_info")})
    yield "origins", rows


_READERS: Dict[str, Callable[[Dict[str, Any]], Iterator[Tuple[str, List[Row]]]]] = {
    "ckpt_compare": _checkpoint_rows, "config_check": _check_rows, "nan_analyze": _anomaly_rows}


def _block_html(block: Mapping[str, Any]) -> str:
    if block.get("kind") == "table":
        if not block["rows"]:
            return ""
        head = "".join("<th>%s</th>" % html.escape(str(name)) for name in block["columns"])
        body = "".join("<tr>%s</tr>" % "".join("<td>%s</td>" % html.escape("" if cell is None else str(cell)) for cell in row)
                       for row in block["rows"][:_MOST_SHOWN])
        rest = len(block["rows"]) - _MOST_SHOWN
        more = "<p>%d more rows: rows()</p>" % rest if rest > 0 else ""
        return "<table><tr>%s</tr>%s</table>%s" % (head, body, more)
    lines = []
    for item in block.get("items", ()):
        if "text" not in item:
            continue
        lines.append("<tr><td>%s</td><td>%s</td></tr>" % (html.escape(item.get("label", "")), html.escape(item["text"])))
        lines += ["<tr><td></td><td>%s</td></tr>" % html.escape(detail.get("text", "")) for detail in item.get("details", ())]
    return "<table>%s</table>" % "".join(lines) if lines else ""


# ---- the program ----

def _spelled(value: Any) -> str:
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def _words(flags: Mapping[str, Any], repeated: Sequence[str]) -> List[str]:
    """Keyword arguments as flags. A list is joined by commas, or given one flag or one word per element, as the program wants it
    (`repeated`: "fail_on*" for flags, "dump+" for words)."""
    words: List[str] = []
    for name, value in flags.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        if value is None:
            continue
        if isinstance(value, bool):
            words += [flag] if value else ["--no-" + flag[2:]] if name + "!" in repeated else []
        elif isinstance(value, (list, tuple)):
            texts = [_spelled(one) for one in value]
            if name + "*" in repeated:
                words += ["%s=%s" % (flag, text) for text in texts]
            elif name + "+" in repeated:
                words += [flag, *("./" + text if text.startswith("-") else text for text in texts)]
            else:
                words.append("%s=%s" % (flag, ",".join(texts)))
        else:
            words.append("%s=%s" % (flag, _spelled(value)))
    return words


def start(spec: Command, arguments: Sequence[Optional[PathLike]], flags: Mapping[str, Any], repeated: Sequence[str] = ()) -> Dict[str, Any]:
    """The answer of the program."""
    try:
        program = _program.find()
    except FileNotFoundError as error:
        raise MsprobeError(str(error), "install msprobe, or let $MSPROBE name the program") from None
    command = [program, *spec.words, *_words(flags, repeated), "--json", "--", *(os.fspath(one) for one in arguments if one is not None)]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    except (OSError, ValueError) as error:  # a program of another machine, a NUL in a name, names without end
        raise UsageError(str(error), "", None, command) from None
    document: Optional[Dict[str, Any]] = None
    if done.returncode in (0, _FOUND, _INPUT):
        try:
            document = json.loads(done.stdout.decode("utf-8", "replace"))
        except ValueError:
            pass
    if document is None or done.returncode == _INPUT:
        _fail(done.returncode, done.stderr.decode("utf-8", "replace"), document, command)
    return document


def _fail(code: int, told: str, document: Optional[Dict[str, Any]], command: List[str]) -> NoReturn:
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    errors, hints = _behind(_ERRORS, lines), _behind(_HINTS, lines)
    text = ((document or {}).get("verdict") or {}).get("text", "")
    message = (errors or [text] * bool(text) or lines[-1:] or ["msprobe ended with %d" % code])[0]
    kind = {_USAGE: UsageError, _INPUT: InputError}.get(code, MsprobeError)
    raise kind(message, hints[0] if hints else "", code, command)


def _behind(openings: Sequence[str], lines: Sequence[str]) -> List[str]:
    return [line[len(opening):].strip() for line in lines for opening in openings if line.startswith(opening)]


def _formats(flags: Mapping[str, Any]) -> List[str]:
    given = flags.get("format") or ()
    return given.split(",") if isinstance(given, str) else list(given)


def call(spec: Command, given: Mapping[str, Any], positional: Sequence[str], repeated: Sequence[str] = ()) -> Result:
    """Runs a command. `given`: all arguments of its function by name; `repeated`: see `_words`."""
    arguments = [given[name] for name in positional]
    output = given.get("output")
    flags = {name: value for name, value in given.items() if name not in positional and name != "output"}

    def run(formats: str, **changed: Any) -> Tuple[Dict[str, Any], _Kept]:
        """Without an output that stays."""
        kept = _Kept()
        with tempfile.TemporaryDirectory(prefix="msprobe_") as folder:
            place = folder if spec.output == "folder" else os.path.join(folder, spec.output or "")
            document = start(spec, arguments, {**flags, "format": formats or None, **changed, "output": place}, repeated)
            for path in map(Path, document.get("files", ())):
                if path.is_file() and path.suffix in (".jsonl", ".csv", ".json", ".html"):
                    kept.add(_kept_name(path, folder), path)
        return document, kept

    def once_more(formats: str) -> _Kept:
        return run(formats, **dict.fromkeys(_ONCE))[1]

    if output is not None:
        return Result(spec, once_more, _formats(flags), start(spec, arguments, {**flags, "output": output}, repeated))
    if spec.output is None:
        return Result(spec, once_more, (), start(spec, arguments, flags, repeated))
    wanted = _formats(flags) or [name for name in (spec.rows, None if spec.rows else spec.page) if name]
    document, kept = run(",".join(wanted))
    return Result(spec, once_more, wanted, document, kept)
