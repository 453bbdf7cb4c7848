#!/usr/bin/env python3
"""The packages of a build: what is in them, and that an installation of each works.

usage: package_test.py BUILD SOURCE --cmake C --cpack C --compiler C --version V --oldest-glibc V --oldest-python V

What needs another machine, or root, is tried by tools/dev/package.sh --try.
"""
import argparse
import base64
import csv
import gzip
import hashlib
import importlib.util
import io
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from pathlib import Path

OPTIONS = None
# Another interpreter may have packages on its path that this one must not see.
ENVIRONMENT = {key: value for key, value in os.environ.items() if key not in ("PYTHONPATH", "MSPROBE_PYTHON_PATH", "MSPROBE")}
sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
import docs_test  # noqa: E402

EPOCH = "1700000000"
C_PROGRAM = """
#include <msprobe/capture.h>
#include <msprobe/monitor.h>
int main(void) { return msprobe_capture_abi() == MSPROBE_CAPTURE_ABI ? 0 : 1; }
"""


def run(*command, code=0, **options):
    """Both outputs of a command that ends with `code`."""
    options.setdefault("env", ENVIRONMENT)
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=300, check=False, **options)
    if done.returncode != code:
        raise AssertionError("%s ended with %d:\n%s" % (" ".join(map(str, command)), done.returncode, done.stdout))
    return done.stdout


def names_below(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir()}


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory(prefix="msprobe_package_")
        cls.folder = Path(cls.scratch.name).resolve()
        cls.packages = cls.folder / "packages"
        epoch = dict(ENVIRONMENT, SOURCE_DATE_EPOCH=EPOCH)
        run(OPTIONS.cpack, "--config", OPTIONS.build / "CPackConfig.cmake", "-B", cls.packages, env=epoch)
        cls.archive = cls.only("*.tar.gz")
        cls.debian_package = cls.only("*.deb")
        cls.wheel = cls.only("*.whl")
        cls.example = OPTIONS.source / "docs/example"
        cls.unpacked = cls.unpack(cls.new_folder())  # whoever changes it takes one of its own

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    @classmethod
    def only(cls, pattern):
        found = list(cls.packages.glob(pattern))
        assert len(found) == 1, (pattern, found)
        return found[0]

    @classmethod
    def new_folder(cls):
        return Path(tempfile.mkdtemp(dir=cls.folder))

    @classmethod
    def unpack(cls, folder):
        with tarfile.open(cls.archive) as archive:
            archive.extractall(folder)
        (top,) = folder.iterdir()
        return top

    def check_program(self, program):
        """It runs, compares, and finds its Python package and no other."""
        self.assertEqual(run(program, "--version").strip(), "msprobe " + OPTIONS.version)
        output = self.new_folder()
        self.assertIn("DIFFERENT: it starts with a parameter of blocks.0.mlp.fc1",
                      run(program, "compare", self.example / "npu", self.example / "bench", "-o", output / "out"))
        # Run with an interpreter that knows nothing of the installation.
        code = ("import importlib.util, sys, msprobe, msprobe._native; print('package', msprobe.__file__); "
                "print('pip beside it', importlib.util.find_spec('pip') is not None and "
                "importlib.util.find_spec('pip').origin.startswith(%r))" % str(self.folder))
        said = run(program, "dump", "--dump_path", output / "dump", "--", "/usr/bin/env", sys.executable, "-c", code)
        self.assertIn("package %s/" % self.folder, said)
        self.assertIn("pip beside it False", said)

    def check_functions(self, python, environment):
        """The package calls the program that came with it."""
        code = ("import msprobe; r = msprobe.compare(%r, %r); print(msprobe.__version__, r.verdict, len(r.records()), r.first)"
                % (str(self.example / "npu"), str(self.example / "bench")))
        self.assertIn("%s DIFFERENT 164 parameter: blocks.0.mlp.fc1 (Linear)" % OPTIONS.version, run(python, "-c", code, env=environment))

    def test_an_installation_has_program_package_headers_documents_and_licences(self):
        prefix = self.new_folder()
        run(OPTIONS.cmake, "--install", OPTIONS.build, "--prefix", prefix, umask=0o077)
        names = names_below(prefix)
        for name in ("bin/msprobe", "include/msprobe/capture.h", "lib/msprobe/libmsprobe_capture.so",
                     "lib/msprobe/python/msprobe/_native.abi3.so", "lib/msprobe/python/msprobe/libmsprobe_capture.so",
                     "lib/msprobe/python/msprobe/pytorch/debugger.py", "lib/msprobe/python/msprobe/mindspore/debugger.py",
                     "lib/msprobe/python/msprobe/core/config_check/checker.py",
                     "lib/msprobe/python/msprobe/_inject/sitecustomize.py",
                     "lib/msprobe/python/msprobe/captured_apis.json", "share/doc/msprobe/LICENSE",
                     "share/doc/msprobe/README.md", "share/man/man1/msprobe.1.gz",
                     "share/man/man1/msprobe-compare.1.gz", "share/bash-completion/completions/msprobe",
                     "share/zsh/site-functions/_msprobe", "share/fish/vendor_completions.d/msprobe.fish", "share/doc/msprobe/docs/commands/compare.md",
                     "share/doc/msprobe/docs/example/train.py"):
            self.assertIn(name, names)
        self.assertFalse([name for name in names if "__pycache__" in name or name.endswith((".a", ".cmake"))])
        for_all = stat.S_IRUSR | stat.S_IRGRP | stat.S_IROTH
        self.assertFalse([name for name in names if (prefix / name).stat().st_mode & for_all != for_all])
        sources = OPTIONS.source / "tools/python/msprobe"
        self.assertEqual({name for name in names_below(sources) if name.endswith((".py", "py.typed"))} | {"_version.py"},
                         {name for name in names_below(prefix / "lib/msprobe/python/msprobe") if name.endswith((".py", "py.typed"))})
        rights = (prefix / "share/doc/msprobe/copyright").read_text(encoding="utf-8")
        for library in ("libcli11-dev", "libyaml-cpp-dev", "libpcre2-dev", "libsqlite3-dev"):
            self.assertRegex(rights, r"=====\n%s\n\n.*\n" % library)
        self.assertIn(".TH", gzip.decompress((prefix / "share/man/man1/msprobe-compare.1.gz").read_bytes()).decode())
        self.assertEqual((prefix / "share/bash-completion/completions/msprobe").read_text(encoding="utf-8"),
                         run(prefix / "bin/msprobe", "completion", "bash"))
        self.check_program(prefix / "bin/msprobe")
        run(sys.executable, "-c", "import msprobe._native",
            env=dict(ENVIRONMENT, PYTHONPATH=str(prefix / "lib/msprobe/python")))
        self.check_functions(sys.executable, dict(ENVIRONMENT, PYTHONPATH=str(prefix / "lib/msprobe/python"), PATH="/nowhere"))

    def test_programs_in_c_are_linked_with_the_library(self):
        prefix = self.unpacked
        program = self.folder / "caller"
        library = prefix / "lib/msprobe"
        run(OPTIONS.compiler, "-x", "c", "-", "-I", prefix / "include", "-L", library, "-lmsprobe_capture",
            "-Wl,-rpath,%s" % library, "-o", program, input=C_PROGRAM)
        run(program)

    def test_the_archive_works_where_it_is_unpacked(self):
        self.assertEqual(self.unpacked.name + ".tar.gz", self.archive.name)
        self.check_program(self.unpacked / "bin/msprobe")

    def test_the_debian_package_keeps_to_the_hierarchy(self):
        if shutil.which("dpkg-deb") is None:
            self.skipTest("dpkg-deb is not installed")
        root = self.new_folder()
        run("dpkg-deb", "-x", self.debian_package, root)
        names = names_below(root)
        for name in ("usr/bin/msprobe", "usr/share/doc/msprobe/copyright", "usr/share/doc/msprobe/changelog.gz",
                     "usr/share/man/man1/msprobe.1.gz", "usr/share/bash-completion/completions/msprobe"):
            self.assertIn(name, names)
        link = root / "usr/lib/python3/dist-packages/msprobe"
        self.assertEqual(link.resolve(), root / "usr/lib/msprobe/python/msprobe")
        self.assertFalse([name for name in names if not name.startswith("usr/")])
        field = run("dpkg-deb", "-f", self.debian_package, "Depends").strip()
        self.assertEqual(field, "libc6 (>= %s)" % OPTIONS.oldest_glibc)
        self.check_program(root / "usr/bin/msprobe")

    def test_the_wheel_installs_with_pip_and_leaves_nothing_behind(self):
        environment = self.new_folder()
        if importlib.util.find_spec("ensurepip") is None:
            self.skipTest("python3-venv is not installed (tools/install_dependencies.sh test)")
        run(sys.executable, "-m", "venv", environment)
        before = names_below(environment)
        python = environment / "bin/python"
        run(python, "-m", "pip", "install", "--quiet", "--no-index", self.wheel)
        self.check_program(environment / "bin/msprobe")
        self.assertIn(str(environment), run(python, "-c", "import msprobe._native; print(msprobe.__file__)"))
        code = "from msprobe import _program; print(_program.find())"
        self.assertEqual(run(python, "-c", code).strip(), str(environment / "bin/msprobe"))
        self.assertEqual(run(python, "-m", "msprobe", "--version").strip(), "msprobe " + OPTIONS.version)
        self.check_functions(python, ENVIRONMENT)
        code = "from importlib.metadata import entry_points as e; print([p.value for ps in [e()] for p in (ps.select(group='pytest11') if hasattr(ps, 'select') else ps['pytest11'])])"
        self.assertIn("msprobe.pytest_plugin", run(python, "-c", code))
        self.assertIn("msprobe.pytorch needs PyTorch", run(python, "-c", "import msprobe.pytorch", code=1))
        self.assertIn("msprobe.mindspore needs MindSpore", run(python, "-c", "import msprobe.mindspore", code=1))
        run(python, "-m", "pip", "uninstall", "--quiet", "--yes", "msprobe")
        left = {name for name in names_below(environment) - before if "__pycache__" not in name}
        self.assertEqual(left, set())

    def test_the_wheel_is_what_its_name_says(self):
        tag = "cp%s-abi3-manylinux_%s_%s" % (OPTIONS.oldest_python.replace(".", ""), OPTIONS.oldest_glibc.replace(".", "_"),
                                             os.uname().machine)
        self.assertEqual(self.wheel.name, "msprobe-%s-%s.whl" % (OPTIONS.version, tag))
        info = "msprobe-%s.dist-info/" % OPTIONS.version
        with zipfile.ZipFile(self.wheel) as archive:
            self.assertIsNone(archive.testzip())
            names = archive.namelist()
            self.assertIn("Tag: %s\n" % tag, archive.read(info + "WHEEL").decode())
            self.assertIn("Requires-Python: >=%s\n" % OPTIONS.oldest_python, archive.read(info + "METADATA").decode())
            self.assertNotIn("Requires-Dist", archive.read(info + "METADATA").decode())
            records = list(csv.reader(io.StringIO(archive.read(info + "RECORD").decode())))
            self.assertEqual([record[0] for record in records], names)
            self.assertIn("msprobe-%s.data/data/share/man/man1/msprobe-compare.1.gz" % OPTIONS.version, names)
            for name, digest, size in records[:-1]:
                data = archive.read(name)
                expected = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                self.assertEqual((digest, int(size)), ("sha256=" + expected, len(data)), name)
            self.assertEqual(records[-1], [info + "RECORD", "", ""])
            program = archive.getinfo("msprobe-%s.data/scripts/msprobe" % OPTIONS.version)
            self.assertTrue(program.external_attr >> 16 & stat.S_IXUSR)

    def test_no_file_asks_for_a_newer_c_library_than_promised(self):
        promised = tuple(map(int, OPTIONS.oldest_glibc.split(".")))
        checked = 0
        for path in (self.unpacked / "bin/msprobe", *self.unpacked.rglob("*.so")):
            needs = run("readelf", "--wide", "--version-info", path, env=dict(ENVIRONMENT, LC_ALL="C"))
            versions = {tuple(map(int, text.split("."))) for text in re.findall(r"Name: GLIBC_([\d.]+)", needs)}
            self.assertTrue(versions, path)
            self.assertLessEqual(max(versions), promised, "%s: cmake/older_glibc/ lets newer symbols pass" % path.name)
            checked += 1
        self.assertEqual(checked, 4)  # the library has two names
        page = (OPTIONS.source / "docs/install.md").read_text(encoding="utf-8")
        self.assertIn("glibc %s" % OPTIONS.oldest_glibc, page)

    def test_equal_installations_make_equal_wheels(self):
        # That of cpack, of an installation of its own and later, and one of the unpacked archive.
        wheel = Path(self.make_wheel(self.unpacked, self.new_folder(), epoch=EPOCH).strip())
        self.assertEqual(hashlib.sha256(wheel.read_bytes()).hexdigest(), hashlib.sha256(self.wheel.read_bytes()).hexdigest())

    def test_the_page_about_installing_runs_as_written(self):
        folder = self.new_folder()
        for package in (self.wheel, self.archive, self.debian_package):
            shutil.copy(package, folder)
        ran = 0
        for number, steps in docs_test.console_blocks(OPTIONS.source / "docs/install.md"):
            results = docs_test.run_block([command for command, _ in steps], folder, ENVIRONMENT)
            self.assertEqual(len(results), len(steps), "the block at line %d ended early" % number)
            for (command, expected), (lines, status) in zip(steps, results):
                self.assertEqual(status, 0, "%s\n%s" % (command, "\n".join(lines)))
                while expected and not expected[-1]:
                    expected.pop()
                self.assertTrue(docs_test.matches(expected or ["..."], lines), "%s printed\n%s" % (command, "\n".join(lines)))
                ran += 1
        self.assertGreater(ran, 6)

    def make_wheel(self, prefix, output, epoch="0", code=0):
        summary = re.search(r'DESCRIPTION "([^"]+)"', (OPTIONS.source / "CMakeLists.txt").read_text(encoding="utf-8")).group(1)
        return run(OPTIONS.source / "tools/dev/make_wheel.py", "--version", OPTIONS.version, "--summary", summary,
                   "--python", OPTIONS.oldest_python, "--output", output, prefix, code=code,
                   env=dict(ENVIRONMENT, SOURCE_DATE_EPOCH=epoch))

    def test_no_wheel_is_made_of_what_would_not_work(self):
        prefix, output = self.unpack(self.new_folder()), self.new_folder()
        package = prefix / "lib/msprobe/python/msprobe"
        foreign = package / "foreign.so"
        run(OPTIONS.compiler, "-shared", "-x", "c", "-", "-Wl,--no-as-needed", "-lstdc++", "-o", foreign, input="int f;")
        self.assertIn("foreign.so needs libstdc++.so.6", self.make_wheel(prefix, output, code=1))
        foreign.write_bytes(b"\x7fELF damaged")
        self.assertIn("readelf cannot read", self.make_wheel(prefix, output, code=1))
        foreign.unlink()
        (package / "_native.abi3.so").unlink()
        self.assertIn("is incomplete: nothing in it becomes msprobe/_native.abi3.so", self.make_wheel(prefix, output, code=1))
        self.assertEqual(names_below(output), set())


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("source", type=Path)
    for name in ("cmake", "cpack", "compiler", "version", "oldest-glibc", "oldest-python"):
        parser.add_argument("--" + name, required=True)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest, verbosity=2)
