"""The functions of the Python package that call a command: tools/python/msprobe/_commands.py, made from the program's own table of flags.

Used by tools/dev/update_flag_tables.py. What a table of flags does not say is here: which commands are functions, how their arguments are
called, and what their files are.
"""
import re
import textwrap

WIDTH = 140


class Function:
    def __init__(self, words, arguments, about, **spec):
        self.words = words.split()
        self.arguments = arguments
        self.about = about   # of rows(), first and to_html()
        self.spec = spec


RANKS = "a dump.json, or the folder of a rank, a step or a whole dump"
FUNCTIONS = (
    Function("compare", {"test": RANKS, "reference": "the same of the side that is right"},
             "rows(): a row per tensor, with the columns of the result table: statistics or, of tensor dumps, measures such as Cosine and "
             "MaxAbsErr. first: the call, parameter or input at which the two sides part.",
             rows="json", page="html", first="item", stem="compare_result"),
    Function("ckpt_compare", {"test": "a checkpoint of any kind: a folder, or a .pt, .bin, .safetensors, .npz or .ckpt file",
                              "reference": "the checkpoint to compare it with, of any kind"},
             "rows(): a row per parameter: shape_1, shape_2 (lists of int), l2 (relative), cos, max_abs and so on; 1 is test, 2 is "
             "reference. first: the parameter with the largest relative difference.",
             output="ckpt_similarity.json", rows="json", page="html", default_table="parameters", own_format=True, first="Parameter"),
    Function("perf_compare", {"test": "a profile: a folder of the profiler, or a trace", "reference": "the profile to compare it with"},
             "rows(): the overall metrics, in ms; rows(\"Kernels\") and so on: the other sheets, see `tables`. first: the largest difference.",
             rows="json", page="html", first="item", stem="performance_comparison_result",
             default_table="OverallMetrics"),
    Function("config_check", {"test": "a pack, a log or a launch script of a training", "reference": "the same of the other training"},
             "rows(): a row per check; rows(\"findings\"): what differs and why, rows(\"env\") and so on: the rows of one check, see `tables`. "
             "first: the difference that matters most.",
             rows="json", page="html", default_table="checks", own_format=True, first="item"),
    Function("nan_analyze", {"dump": "the folder of a step, or of a whole dump, whose steps are searched"},
             "rows(): a row per origin: rank, op_name, input_args and output (lists of dict, as dump.json has them), stack_info. "
             "first: the operator that made the first NaN or infinity.",
             rows="json", page="html", own_format=True, first="section"),
    Function("monitor diff", {"test": "a monitored run: a folder with folders <stamp>-rank<R>-<id>, or one of them",
                              "reference": "the run to compare it with"},
             "rows(): a row per table and statistic. first: where the two runs part.", output=None, first="line"),
    Function("graph", {"test": RANKS + ", of level L0 or mix", "reference": "the same of the side that is right"},
             "to_html(): the page with the tree. first: the call at which the two sides part.", page="html", first="item"),
    Function("recheck", {"test": "a dump of task tensor", "reference": "a second dump of the same model"},
             "rows(): a row per call: Verdict, Ratio (error over its bound), Captured, Exact and so on. first: the first call beyond its bound.",
             rows="csv", stem="recheck_result", first="Call"),
    Function("show", {"path": "a dump, a tensor file, a folder of tensor files or a checkpoint",
                      "name": "a part of the names of rows; of a dump, of calls of its first rank"},
             "rows(): a row per tensor, argument or rank. The result is a `Contents`, which gives tensors as NumPy arrays: `arrays`.",
             output=None),
    Function("grad_compare", {"test": "a folder of the task grad_probe", "reference": "the same of the other training"},
             "rows(): a row per parameter, a column per step: shares of signs that agree, 0 to 1. first: the parameter with the lowest share.",
             rows="csv", page="html", stem="similarities", first="Parameter"),
    Function("rl_compare", {"test": "a folder of SingleSave", "reference": "the same of the other run"},
             "rows(key): a row per value of one key, see `tables`.", rows="json", page="html"),
    Function("response_anomaly", {"test": "requests.jsonl: answers of a model with their log-probabilities"},
             "rows(): a row per request.", rows="csv", page="html"),
)

# What a caller of a function does not need: how the answer is printed, and what is a parameter of the function itself.
LEFT_OUT = {"--json", "--color", "--width", "--help", "--quiet", "--verbose", "--output", "--open", "--watch", "--watch-timeout",
            "--links", "--annotations"}
LEFT_OUT_OF = {"show": {"--format", "--force", "--offsets"}, "monitor diff": {"--format"}}
NUMBERS = {"N": "int", "R": "float", "A": "float", "T": "float", "US": "float", "SHARE": "float", "SECONDS": "float"}
PATHS = {"FILE", "DIR", "PATH", "STEP_DIR", "DUMP_DIR"}
LISTS = {"LIST", "TEXT,...", "N,N", "LEVEL"}
KEYWORDS = {"class", "def", "from", "global", "import", "in", "is", "lambda", "pass", "return", "with"}

HEAD = '''"""The commands of msprobe as functions: `msprobe.compare("a", "b").verdict`.

Written by tools/dev/update_flag_tables.py from the program's own table of flags. Each flag is a keyword argument: `min_diff_us=5` is
`--min-diff-us 5`, True is a switch, a list becomes what the command takes. Change the table in tools/dev/python_api.py instead.
"""
from __future__ import annotations

from typing import TYPE_CHECKING, Mapping, Sequence

from msprobe import _results
from msprobe._arrays import Contents
from msprobe._results import Command, PathLike, Result

if TYPE_CHECKING:
    import numpy
'''

FOOT = '''

def load(path: PathLike) -> Mapping[str, numpy.ndarray]:
    """Tensors of a file, a folder of files, a checkpoint or a dump.json by name: `show(path).arrays`.

    An array is read-only and borrows from the mapped file where its elements are there as NumPy wants them; it is copied where they
    have to be converted (bfloat16 without the package ml_dtypes: float32) or unpacked (compressed .npz). Shape and dtype are those of
    the tensor. Nothing in a file is executed, PyTorch is not needed. Raises InputError.
    """
    return show(path).arrays
'''


def type_of(flag):
    """Annotation and default."""
    if not flag["type"]:
        return "bool | None = None" if flag["turned_off_by"] else "bool = False"
    return kind_of(flag) + " | None = None"


def kind_of(flag):
    kind = flag["type"]
    if kind in LISTS:
        return "str | Sequence[int] | int" if kind == "N,N" else "str | Sequence[str]"
    if kind in NUMBERS:
        return NUMBERS[kind]
    if "..." in kind or " " in kind:
        return "PathLike | Sequence[PathLike]"
    if kind in PATHS:
        return "PathLike | bool" if flag["bare"] else "PathLike"
    return "str | bool" if flag["bare"] else "str | int" if kind == "STEP" else "str"


def parameter_of(flag):
    name = flag["name"][2:].replace("-", "_")
    return name + "_" if name in KEYWORDS else name


def how_repeated(flag):
    """The mark of `_results._words` for a flag with several values, or one that can be turned off."""
    if flag["type"] == "LEVEL" or flag.get("repeated"):
        return "*"
    if flag["turned_off_by"]:
        return "!"
    return "+" if " " in flag["type"] or "..." in flag["type"] and "," not in flag["type"] else ""


def wrapped(text, indent, later=None):
    return textwrap.wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent if later is None else later, break_on_hyphens=False,
                         break_long_words=False)


def filled(opening, parts, ending):
    """The parts in lines of the width, separated by commas, below the opening bracket."""
    lines, line = [], opening
    for place, part in enumerate(parts):
        piece = part + (ending if place == len(parts) - 1 else ",")
        if len(line) > len(opening) and len(line) + 1 + len(piece) > WIDTH:
            lines.append(line.rstrip())
            line = " " * len(opening)
        line += ("" if line.endswith(("(", " " * len(opening))) else " ") + piece
    return lines + [line.rstrip()]


def sentence(flag):
    text = re.sub(r"\s+", " ", flag["help"]).strip()
    values = [value for value in flag["values"] if value]
    if values and not all(re.search(r"\b%s\b" % re.escape(value), text) for value in values):
        text += ": " + ", ".join(values[:-1]) + (" or " if len(values) > 1 else "") + values[-1]
    default = flag["default"]
    return text + (" (default: %s)" % default if default and flag["type"] else "") + "."


def function_source(function, command):
    """The text of one function."""
    method = len(function.words) > 1
    indent = "    " if method else ""
    has_output = function.spec.get("output", "folder") is not None
    left_out = LEFT_OUT | LEFT_OUT_OF.get(" ".join(function.words), set())
    flags = [flag for flag in command["flags"] if flag["name"] not in left_out and not flag["hidden"]]
    required = [bool(argument["required"]) for argument in command["arguments"]]
    parameters = ["%s: PathLike%s" % (name, "" if needed else " | None = None")
                  for name, needed in zip(function.arguments, required)]
    if len(required) != len(function.arguments):
        raise SystemExit("%s has %d arguments, the table of tools/dev/python_api.py names %d" % (
            command["command"], len(required), len(function.arguments)))
    parameters.append("*")
    parameters += ["output: PathLike | None = None"] * has_output
    parameters += ["%s: %s" % (parameter_of(flag), type_of(flag)) for flag in flags]
    is_show = function.words == ["show"]
    constant = "_" + "_".join(function.words).upper()
    spec = ["(%s%s)" % (", ".join('"%s"' % word for word in function.words), "" if method else ",")]
    spec += ["%s=%s" % (key, '"%s"' % value if isinstance(value, str) else value) for key, value in sorted(function.spec.items())]
    lines = ["    @staticmethod"] * method
    lines += filled("%sdef %s(" % (indent, function.words[-1]), parameters, ") -> %s:" % ("Contents" if is_show else "Result"))
    body = indent + "    "
    lines += [body + '"""' + command["summary"].split("\n")[0] + ".", ""]
    lines += wrapped(function.about, body) + [""]
    for name, about in function.arguments.items():
        lines += wrapped("%s: %s" % (name, about), body, body + "    ")
    if has_output:
        what = "folder for the result files" if function.spec.get("output", "folder") == "folder" else "the result file"
        lines += wrapped("output: %s; without it nothing stays" % what, body, body + "    ")
    for flag in flags:
        lines += wrapped("%s: %s" % (parameter_of(flag), sentence(flag)), body, body + "    ")
    lines += ["", body + "Raises UsageError, InputError. More: docs/commands/%s.md." % "_".join(function.words), body + '"""']
    marks = [parameter_of(flag) + how_repeated(flag) for flag in flags if how_repeated(flag)]
    given = [constant, "locals()", "(%s,)" % ", ".join('"%s"' % name for name in function.arguments)]
    given += ["(%s,)" % ", ".join('"%s"' % mark for mark in marks)] * bool(marks)
    lines += filled("%sreturn %s(" % (body, "Contents.of" if is_show else "_results.call"), given, ")")
    return "\n".join(filled("%s = Command(" % constant, spec, ")")), "\n".join(lines) + "\n"


def source(commands):
    """The text of _commands.py; `commands`: those of `msprobe help --format json` by title."""
    constants, functions, groups = [], [], {}
    for function in FUNCTIONS:
        constant, text = function_source(function, commands["msprobe " + " ".join(function.words)])
        constants.append(constant)
        if len(function.words) == 1:
            functions.append(text)
        else:
            groups.setdefault(function.words[0], []).append(text)
    functions += ['class %s:\n    """Commands of `msprobe %s`: functions of this class."""\n\n%s' % (group, group, "\n".join(texts))
                  for group, texts in groups.items()]
    return HEAD + "\n" + "\n".join(constants) + "\n\n\n" + "\n\n".join(functions) + FOOT
