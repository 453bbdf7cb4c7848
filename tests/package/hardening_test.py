#!/usr/bin/env python3
"""What the compiler and the linker promise about the built program and libraries (cmake/Hardening.cmake), read from the files.

usage: hardening_test.py PROGRAM CAPTURE_LIBRARY PYTHON_EXTENSION
"""
import re
import subprocess
import sys
import unittest

FILES = []


def readelf(*arguments):
    return subprocess.run(["readelf", "--wide", *arguments], stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout


def symbols(path, defined):
    """Names in the dynamic table, without versions. Sections stand there as local symbols on aarch64: nobody finds those."""
    rows = [line.split() for line in readelf("--dyn-syms", path).splitlines()]
    return {row[7].split("@")[0] for row in rows if len(row) > 7 and row[0][:-1].isdigit() and row[4] != "LOCAL"
            and (row[6] != "UND") == defined}


class Hardening(unittest.TestCase):
    def require(self, what, holds, files=None):
        files = FILES if files is None else files
        self.assertTrue(files)
        self.assertEqual([path for path in files if not holds(path)], [], what)

    def test_code_can_be_loaded_at_any_address(self):
        self.require("a shared object or a PIE", lambda path: re.search(r"Type:\s+DYN", readelf("-h", path)))
        self.require("no relocations in code", lambda path: "TEXTREL" not in readelf("-d", path))

    def test_relocated_tables_are_read_only(self):
        self.require("a read-only segment after relocation", lambda path: "GNU_RELRO" in readelf("-l", path))
        self.require("bound at the start", lambda path: re.search(r"BIND_NOW|FLAGS_1.*\bNOW\b", readelf("-d", path)))

    def test_no_memory_is_writable_and_executable(self):
        def holds(path):
            flags = re.findall(r"^\s+(?:LOAD|GNU_STACK)(?:\s+0x\w+){5}\s([R ][W ][E ])", readelf("-l", path), re.M)
            return len(flags) > 2 and not [flag for flag in flags if "W" in flag and "E" in flag]
        self.require("no segment that is writable and executable", holds)

    def test_overflows_of_buffers_are_noticed(self):
        self.require("stack protector", lambda path: "__stack_chk_fail" in symbols(path, defined=False))
        self.require("checked library calls",
                     lambda path: [name for name in symbols(path, defined=False) if re.fullmatch(r"__\w+_chk", name)],
                     FILES[:2])  # the extension of Python calls none that could be checked

    def test_libraries_are_looked_for_beside_it_alone(self):
        def holds(path):
            places = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", readelf("-d", path))
            return {place for text in places for place in text.split(":")} <= {"$ORIGIN"}
        self.require("$ORIGIN or nothing", holds)

    def test_libraries_export_their_interface_alone(self):
        # A C++ library inside of them must not be found by the libraries of the training they are loaded into.
        def holds(path):
            return all(re.match(r"msprobe_|PyInit_|_init$|_fini$", name) for name in symbols(path, defined=True))
        self.require("msprobe_* and PyInit_*", holds, FILES[1:])


if __name__ == "__main__":
    FILES = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
