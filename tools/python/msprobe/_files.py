"""Files that somebody else may have laid in the way, and rows of tables that spreadsheets open."""
import csv
import io
import os
import stat
from typing import IO, Any, Iterable

# What spreadsheets skip in front of a formula, and what begins one: the rule of src/base/csv.cpp,
# which tests/python/torch/files_test.py holds against this one.
_SKIPPED = " \t\r\n\v\"\u00a0\u3000\u200b\ufeff"
_MARKS = "=@\uff1d\uff0b\uff0d\uff20"
_LONGEST_BYTES = 64 << 20


def open_regular(path: "str | os.PathLike[str]", **options: Any) -> IO[Any]:
    """Opens a regular file for reading. A FIFO or a device is an OSError: neither is waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        require_regular(descriptor, path)
        file: IO[Any] = os.fdopen(descriptor, **options)
        return file
    except BaseException:
        os.close(descriptor)
        raise


def read_text(path: "str | os.PathLike[str]", longest_bytes: int = _LONGEST_BYTES) -> str:
    """The UTF-8 text of a regular file."""
    with open_regular(path, encoding="utf-8") as file:
        descriptor = file.fileno()
        size = os.fstat(descriptor).st_size
        if size > longest_bytes:
            raise ValueError("%s has %d bytes, more than %d" % (path, size, longest_bytes))
        text: str = file.read()
        return text


def require_regular(descriptor: int, path: object) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError("%s is not a regular file" % path)


def _is_number(text: str) -> bool:
    try:
        float(text)
        return "_" not in text
    except ValueError:
        return False


def looks_like_formula(text: str) -> bool:
    if text[:1] in ("\t", "\r") and text:
        return True
    text = text.lstrip(_SKIPPED)
    if text[:1] in ("=", "@"):
        return True
    if len(text) < 2:
        return False
    return text[0] in _MARKS or (text[0] in "+-" and not all(map(_is_number, text.split(";"))))


def csv_row(cells: Iterable[object], line_end: str = "\r\n") -> str:
    """A line of a csv file: texts that a spreadsheet would take for a formula get an apostrophe."""
    out = io.StringIO()
    texts = [cell if isinstance(cell, (int, float)) or cell is None else str(cell) for cell in cells]
    csv.writer(out, lineterminator=line_end).writerow(
        ["'" + cell if isinstance(cell, str) and looks_like_formula(cell) else cell for cell in texts])
    return out.getvalue()
