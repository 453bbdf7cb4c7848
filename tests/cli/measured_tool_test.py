#!/usr/bin/python3
"""A bench measures the package that PYTHONPATH finds: it names it, and ends where that is not the one it was asked for.

usage: measured_tool_test.py REPOSITORY
"""
import os
import subprocess
import sys
import tempfile
import unittest

REPOSITORY = None


def place_of(pythonpath, peer):
    """[what place_of(peer) returns, its output], or [None, the words it ends with]."""
    code = "import sys; sys.path.insert(0, %r); import measured_tool; print(measured_tool.place_of(%r))" % (
        os.path.join(REPOSITORY, "tests", "bench"), peer)
    ended = subprocess.run([sys.executable, "-c", code], env=dict(os.environ, PYTHONPATH=pythonpath), stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, check=False, text=True, cwd="/")
    lines = ended.stdout.splitlines()
    return [lines[-1], lines[0]] if ended.returncode == 0 else [None, ended.stderr]


class MeasuredToolTest(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)

    def package(self, name, *files):
        place = os.path.join(self.scratch.name, name)
        os.makedirs(os.path.join(place, "msprobe"))
        for file in ("__init__.py",) + files:
            open(os.path.join(place, "msprobe", file), "w").close()
        return place

    def test_a_build_elsewhere_is_measured_and_named(self):
        build = self.package("a build", "_native.abi3.so")
        self.assertEqual(place_of(build, None), [build, "measured: msprobe in " + os.path.join(build, "msprobe")])

    def test_another_tool_on_the_way_is_refused(self):
        for name in ("other", "msprobe_of_somebody"):
            place, words = place_of(self.package(name), None)
            self.assertIsNone(place)
            self.assertIn("PYTHONPATH leads to another tool", words)

    def test_another_tool_is_measured_when_it_is_asked_for(self):
        other, build = self.package("other"), self.package("build", "_native.abi3.so")
        place, words = place_of(build, other)
        self.assertTrue(place.startswith(other + os.pathsep))
        self.assertEqual(words, "measured: mindstudio-probe (version unknown) in " + os.path.join(other, "msprobe"))

    def test_a_folder_without_a_tool_does_not_measure_ours(self):
        place, words = place_of(self.package("build", "_native.abi3.so"), os.path.join(self.scratch.name, "empty"))
        self.assertIsNone(place)
        self.assertIn("asked for the tool in", words)


if __name__ == "__main__":
    REPOSITORY = os.path.abspath(sys.argv[1])
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
