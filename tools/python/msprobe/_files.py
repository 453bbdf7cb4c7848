"""Files that somebody else may have laid in the way, and rows of tables that spreadsheets open."""
import csv
import io
import os
import stat

# What spreadsheets skip in front of a formula, and what begins one: the rule of src/base/csv.cpp,
# which tests/python/torch/files_test.py holds against this one.
_SKIPPED = " \t\r\n\v\"\u00a0\u3000\u200b\ufeff"
_MARKS = "=@\uff1d\uff0b\uff0d\uff20"
_LONGEST_BYTES = 64 << 20


def read_text(path, longest_bytes=_LONGEST_BYTES):
    """The UTF-8 text of a regular file. A FIFO or a device is an OSError: neither is waited for."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    with os.fdopen(descriptor, encoding="utf-8") as file:
        require_regular(descriptor, path)
        size = os.fstat(descriptor).st_size
        if size > longest_bytes:
            raise ValueError("%s has %d bytes, more than %d" % (path, size, longest_bytes))
        return file.read()


def require_regular(descriptor, path):
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError("%s is not a regular file" % path)


def _is_number(text):
    try:
        float(text)
        return "_" not in text
    except ValueError:
        return False


def looks_like_formula(text):
    if text[:1] in ("\t", "\r") and text:
        return True
    text = text.lstrip(_SKIPPED)
    if text[:1] in ("=", "@"):
        return True
    if len(text) < 2:
        return False
    return text[0] in _MARKS or (text[0] in "+-" and not all(map(_is_number, text.split(";"))))


def csv_row(cells, line_end="\r\n"):
    """A line of a csv file: texts that a spreadsheet would take for a formula get an apostrophe."""
    out = io.StringIO()
    texts = [cell if isinstance(cell, (int, float)) or cell is None else str(cell) for cell in cells]
    csv.writer(out, lineterminator=line_end).writerow(
        ["'" + cell if isinstance(cell, str) and looks_like_formula(cell) else cell for cell in texts])
    return out.getvalue()
