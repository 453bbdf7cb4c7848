"""What `show` found: rows, and the tensors themselves as NumPy arrays.

The program says where in which file the elements of a tensor are, and how far apart (`show --offsets`); here those bytes are mapped. What
NumPy has no name for is converted: see `Arrays`.
"""
from __future__ import annotations

import importlib
import os
import zipfile
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Mapping, Sequence

from msprobe._results import Command, InputError, PathLike, Result, Row, UsageError, start

if TYPE_CHECKING:
    import numpy

_CUT = "not in the file as they are: compressed, in several places, of a dtype without a name, or stored for another byte order"


class Arrays(Mapping[str, "numpy.ndarray"]):
    """Tensors by name, each opened when it is asked for.

    An array is read-only, has the tensor's shape and dtype, and borrows from the mapped file, which stays mapped as long as the array.
    Copied are: bfloat16, as float32, which has all its values, unless the package ml_dtypes is installed; members of a compressed .npz.
    KeyError: no such tensor. InputError: its elements cannot be had, with the reason.
    """

    def __init__(self, path: str, rows: List[Row]) -> None:
        self._path = path
        self._rows: Dict[str, Row] = {str(row["Name"]): row for row in rows if row.get("Shape") is not None}

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __getitem__(self, name: str) -> numpy.ndarray:
        row = self._rows[name]
        if "Offset" not in row:
            return self._of_dump(name, row)
        if row.get("Offset") is None:
            return self._unpacked(name, row)
        path = os.path.join(self._path, row["File"]) if os.path.isdir(self._path) else self._path
        return _mapped(path, name, row)

    def _of_dump(self, name: str, row: Row) -> numpy.ndarray:
        """A row of dump.json: its tensor is alone in a file of the folder beside it."""
        file = row.get("File")
        if not file or os.path.basename(file) != file:
            raise InputError("%s has no tensor file" % name, "tensors are stored by dumps of task tensor")
        path = os.path.join(os.path.dirname(self._path), "dump_tensor_data", file)
        arrays = list(_contents(path).arrays.values())
        if len(arrays) != 1:
            raise InputError("%s holds %d tensors" % (path, len(arrays)))
        return arrays[0]

    def _unpacked(self, name: str, row: Row) -> numpy.ndarray:
        path = os.path.join(self._path, row["File"]) if os.path.isdir(self._path) else self._path
        if row.get("Note") is None and zipfile.is_zipfile(path) and os.path.splitext(path)[1] == ".npz":
            import numpy
            with numpy.load(path, allow_pickle=False) as archive:
                array: numpy.ndarray = archive[name.rpartition(":")[2]]
            array.flags.writeable = False
            return array
        raise InputError("%s: %s" % (name, row.get("Note") or "its elements are " + _CUT))


def _numbers(text: str) -> List[int]:
    return [int(number) for number in text.strip("[]").split(",") if number.strip()]


def _mapped(path: str, name: str, row: Row) -> numpy.ndarray:
    import numpy
    dtype = _dtype_of(str(row["Type"]))
    shape, strides, offset = _numbers(row["Shape"]), _numbers(row["Strides"]), int(row["Offset"])
    if 0 in shape:
        array = numpy.empty(shape, dtype)
    else:
        extent = (sum((size - 1) * stride for size, stride in zip(shape, strides)) + 1) * dtype.itemsize
        try:
            block = numpy.memmap(path, numpy.uint8, "r", offset, (extent,))
        except (OSError, ValueError) as error:  # it changed since
            raise InputError("%s of %s: %s" % (name, path, error)) from None
        array = numpy.ndarray(shape, dtype, block, 0, [stride * dtype.itemsize for stride in strides])
    if row["Type"] == "bfloat16" and dtype == numpy.uint16:
        array = (array.astype(numpy.uint32) << numpy.uint32(16)).view(numpy.float32)
    array.flags.writeable = False
    return array


def _dtype_of(name: str) -> numpy.dtype[Any]:
    import numpy
    try:
        return numpy.dtype(name)
    except TypeError:
        pass
    try:
        found: numpy.dtype[Any] = numpy.dtype(getattr(importlib.import_module("ml_dtypes"), name))
        return found
    except (ImportError, AttributeError):
        if name == "bfloat16":
            return numpy.dtype(numpy.uint16)
        raise InputError("NumPy has no dtype %s" % name, "the package ml_dtypes has bfloat16 and floats of 8 bits") from None


class Contents(Result):
    """What a file or folder holds: a Result whose `arrays` are its tensors."""

    path: str = ""

    @classmethod
    def of(cls, spec: Command, given: Mapping[str, Any], positional: Sequence[str]) -> Contents:
        path = os.fspath(given["path"])
        if path == "-":
            raise UsageError("show takes a path", "read the standard input with the program: msprobe show -")
        flags = {name: value for name, value in given.items() if name not in positional}
        result = cls(spec, _never, (), start(spec, [path, *(given[name] for name in positional[1:])], {**flags, "offsets": True}))
        result.path = path
        return result

    @property
    def arrays(self) -> Arrays:
        """The tensors by name, numpy.ndarray each: of a tensor file or a folder of them, and of a dump.json those of its tensor files."""
        path = self.path
        if os.path.isdir(path) and not any("Offset" in row for row in self.records()[:1]):
            raise InputError("%s is a folder of ranks" % path, "name the dump.json of a rank, or its folder dump_tensor_data")
        return Arrays(path, self.records())


def _contents(path: PathLike) -> Contents:
    from msprobe._commands import show
    return show(path)


def _never(formats: str) -> Any:
    raise AssertionError(formats)  # the rows of `show` are in its answer
