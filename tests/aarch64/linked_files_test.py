#!/usr/bin/env python3
"""The linked aarch64 files load on every aarch64 Linux they are meant for: any page size, glibc 2.17, nothing but the C library.

usage: linked_files_test.py FILE...
"""
import re
import subprocess
import sys
import unittest

LARGEST_PAGE = 1 << 16
OLDEST_GLIBC = (2, 17)  # MSPROBE_OLDEST_GLIBC, which is also aarch64's first
OF_THE_C_LIBRARY = r"lib(c|m|dl|pthread)\.so\.\d+|ld-linux-aarch64\.so\.1|libmsprobe_capture\.so"
FILES = []


def readelf(*arguments):
    return subprocess.run(["readelf", "--wide", *arguments], stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout


class LinkedFiles(unittest.TestCase):
    def each(self):
        self.assertTrue(FILES)
        for path in FILES:
            with self.subTest(file=path):
                yield path

    def test_they_are_for_aarch64(self):
        for path in self.each():
            self.assertRegex(readelf("-h", path), r"Machine:\s+AArch64")

    def test_segments_can_be_mapped_with_pages_of_64_kib(self):
        for path in self.each():
            alignments = [int(line.split()[-1], 16) for line in readelf("-l", path).splitlines() if line.split()[:1] == ["LOAD"]]
            self.assertGreater(len(alignments), 1)
            self.assertGreaterEqual(min(alignments), LARGEST_PAGE)

    def test_they_need_the_c_library_alone(self):
        for path in self.each():
            needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf("-d", path))
            self.assertEqual([name for name in needed if not re.fullmatch(OF_THE_C_LIBRARY, name)], [])

    def test_they_need_no_symbol_of_a_later_glibc(self):
        for path in self.each():
            versions = {tuple(map(int, found)) for found in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", readelf("-V", path))}
            self.assertTrue(versions)
            self.assertLessEqual(max(versions), OLDEST_GLIBC)


if __name__ == "__main__":
    FILES = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
