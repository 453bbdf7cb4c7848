"""Call stacks without the frames of ours and of the machinery between."""
import linecache
import os
import sys

_OWN = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_BETWEEN = (os.path.join("torch", "nn", "modules", "module.py"),
            os.sep + "multiprocessing" + os.sep, os.sep + "debugpy" + os.sep)


def _frames():
    """(path, line, function) from the innermost caller outwards."""
    frame = sys._getframe(1)
    while frame is not None:
        path = frame.f_code.co_filename
        if not path.startswith(_OWN) and not any(part in path for part in _BETWEEN):
            yield path, frame.f_lineno, frame.f_code.co_name
        frame = frame.f_back


def lines_of_caller():
    """["train.py[12]   main", ...], innermost first."""
    return ["%s[%d]   %s" % frame for frame in _frames()]


def text_of_caller():
    """The stack with its source lines."""
    parts = []
    for path, line, function in _frames():
        code = linecache.getline(path, line).strip()
        parts.append("File %s, line %d, in %s, \n %s \n" % (path, line, function, code))
    return "".join(parts)
