#!/usr/bin/env python3
"""Makes a wheel of an installed msprobe: the program, the Python package, manual pages and completions.

usage: tools/dev/make_wheel.py --version V --summary TEXT --python 3.8 --output FOLDER PREFIX

PREFIX is where `cmake --install` put msprobe. The wheel serves every CPython from --python on: its extension speaks the
limited API. Its tag tells the oldest C library that the files can run with, read from the files. Equal files make equal
wheels: times are those of SOURCE_DATE_EPOCH (1980 without it). Prints the wheel's path.
"""
import argparse
import base64
import hashlib
import os
import re
import stat
import subprocess
import sys
import time
import zipfile

# What PEP 600 lets a wheel take from its host: all of it belongs to the C library.
HOST_LIBRARIES = re.compile(r"(lib(c|m|dl|pthread|rt)\.so\.\d|ld-linux.*\.so\.\d)$")
MACHINES = {"Advanced Micro Devices X86-64": "x86_64", "AArch64": "aarch64"}
EARLIEST = 315532800  # 1980-01-01: zip files know no earlier time


class Failure(Exception):
    """A wheel cannot be made; the text says why."""


def readelf(path, *what):
    run = subprocess.run(["readelf", "--wide", *what, path], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         env={**os.environ, "LC_ALL": "C"}, text=True, check=False)
    if run.returncode != 0:
        raise Failure("readelf cannot read %s: %s" % (path, run.stderr.strip()))
    return run.stdout


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def needs_of(path):
    """(machine, (2, minor) of the newest glibc whose symbols are used, libraries) of an ELF file."""
    machine = re.search(r"Machine: +(.+)", readelf(path, "--file-header")).group(1).strip()
    versions = [tuple(map(int, version.split(".")))
                for version in re.findall(r"Name: GLIBC_(\d+\.\d+)", readelf(path, "--version-info"))]
    libraries = re.findall(r"\(NEEDED\).*\[(.+)\]", readelf(path, "--dynamic"))
    return machine, max(versions, default=(2, 0)), libraries


def platform_of(files):
    """The platform tag that is true of all files: (path inside of the wheel, path) pairs."""
    machines, newest = set(), (2, 0)
    own = {os.path.basename(name) for name, _ in files}
    for _, path in files:
        if is_elf(path):
            machine, glibc, libraries = needs_of(path)
            machines.add(machine)
            newest = max(newest, glibc)
            foreign = [library for library in libraries if library not in own and not HOST_LIBRARIES.match(library)]
            if foreign:
                raise Failure("%s needs %s, which a host may not have" % (path, ", ".join(foreign)))
    if len(machines) != 1 or not machines <= set(MACHINES):
        raise Failure("programs for one machine of %s are expected, found: %s"
                      % (sorted(MACHINES), sorted(machines) or "none"))
    return "manylinux_%d_%d_%s" % (*newest, MACHINES[machines.pop()])


def files_below(folder):
    for root, folders, names in os.walk(folder):
        folders[:] = sorted(folder for folder in folders if folder != "__pycache__")
        for name in sorted(names):
            yield os.path.join(root, name)


def contents(prefix, version):
    """(path inside of the wheel, path) of everything but the wheel's own records."""
    data = "msprobe-%s.data" % version
    places = [("lib/msprobe/python/msprobe", "msprobe"), ("bin/msprobe", data + "/scripts/msprobe"),
              ("share/man", data + "/data/share/man"),
              ("share/bash-completion", data + "/data/share/bash-completion"),
              ("share/zsh", data + "/data/share/zsh"), ("share/fish", data + "/data/share/fish"),
              ("share/doc/msprobe/LICENSE", "msprobe-%s.dist-info/licenses/LICENSE" % version),
              ("share/doc/msprobe/copyright", "msprobe-%s.dist-info/licenses/copyright" % version)]
    files = []
    for place, inside in places:
        path = os.path.join(prefix, place)
        if os.path.isfile(path):
            files.append((inside, path))
        else:
            files += [(inside + file[len(path):], file) for file in files_below(path)]
    present = {inside for inside, _ in files}
    for needed in ("msprobe/__init__.py", "msprobe/_version.py", "msprobe/py.typed", "msprobe/_native.abi3.so", "msprobe/libmsprobe_capture.so", places[1][1]):
        if needed not in present:
            raise Failure("%s is incomplete: nothing in it becomes %s" % (prefix, needed))
    return files


def metadata(version, summary, python):
    return """Metadata-Version: 2.1
Name: msprobe
Version: %s
Summary: %s
License: Apache-2.0
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: Python :: 3
Classifier: Programming Language :: Python :: Implementation :: CPython
Classifier: Framework :: Pytest
Classifier: Typing :: Typed
Requires-Python: >=%s
License-File: LICENSE
License-File: copyright
Description-Content-Type: text/markdown

The program `msprobe` and the package `msprobe` that training scripts import. Nothing else is needed: the program is
native, and the package takes whatever PyTorch or MindSpore it meets.

    msprobe dump -- python3 train.py
    msprobe compare npu_dump bench_dump -o result

    python3 -c 'import msprobe; print(msprobe.compare("npu_dump", "bench_dump").verdict)'
""" % (version, summary, python)


def record_line(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return "%s,sha256=%s,%d\n" % (name, digest, len(data))


def make(prefix, version, summary, python, output):
    files = contents(prefix, version)
    tag = "cp%s-abi3-%s" % (python.replace(".", ""), platform_of(files))
    info = "msprobe-%s.dist-info" % version
    members = [(inside, path, None) for inside, path in files]
    members.append((info + "/METADATA", None, metadata(version, summary, python)))
    members.append((info + "/entry_points.txt", None, "[pytest11]\nmsprobe = msprobe.pytest_plugin\n"))
    members.append((info + "/WHEEL", None, "Wheel-Version: 1.0\nGenerator: msprobe %s\nRoot-Is-Purelib: false\nTag: %s\n"
                    % (version, tag)))
    moment = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH") or EARLIEST), EARLIEST))[:6]
    os.makedirs(output, exist_ok=True)
    wheel = os.path.join(output, "msprobe-%s-%s.whl" % (version, tag))
    unfinished = wheel + ".part"
    records = ""
    try:
        with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            def add(name, data, executable):
                entry = zipfile.ZipInfo(name, moment)
                entry.create_system = 3  # Unix: the mode counts
                entry.external_attr = (stat.S_IFREG | (0o755 if executable else 0o644)) << 16
                entry.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(entry, data)

            for name, path, text in members:
                if path is None:
                    data = text.encode("utf-8")
                else:
                    with open(path, "rb") as file:
                        data = file.read()
                add(name, data, path is not None and is_elf(path))
                records += record_line(name, data)
            add(info + "/RECORD", (records + info + "/RECORD,,\n").encode("utf-8"), False)
        os.replace(unfinished, wheel)
    finally:
        if os.path.exists(unfinished):
            os.remove(unfinished)
    return wheel


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--version", required=True, help="of msprobe")
    parser.add_argument("--summary", required=True, help="one line")
    parser.add_argument("--python", required=True, metavar="3.X", help="the oldest one that the extension is for")
    parser.add_argument("--output", required=True, metavar="FOLDER", help="where the wheel is written")
    parser.add_argument("prefix", help="where msprobe is installed")
    options = parser.parse_args()
    try:
        print(make(options.prefix, options.version, options.summary, options.python, options.output))
    except (Failure, OSError) as error:
        sys.exit("error: %s" % error)


if __name__ == "__main__":
    main()
