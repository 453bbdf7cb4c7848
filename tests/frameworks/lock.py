#!/usr/bin/env python3
"""Writes tests/frameworks/NAME.txt, the lock file of NAME.in: every package that it leads to, with version and checksum.

usage: tests/frameworks/lock.py NAME [--python PYTHON]

pip resolves (`pip install --dry-run --report`), for this processor and the interpreter given, by default Debian's. If NAME.in
begins with a line `-r OTHER.txt`, the packages of that lock file keep their versions, and only further ones are written. Lines
`--no-binary NAME` are copied: all other packages are wheels.
"""
import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
HEAD = """# Written by `tests/frameworks/lock.py %s` from %s.in; do not edit.
"""


def canonical(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def without_checksums(name):
    """The lines of a file of requirements and of those it adds to. With a checksum in one of them pip asks for all."""
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        lines = [re.sub(r" --hash=\S+", "", line) for line in file]
    bases = [match.group(1) for match in (re.match(r"-r +(\S+)$", line) for line in lines) if match]
    return sum(map(without_checksums, bases), []) + [line for line in lines if not line.startswith("-r ")]


def resolve(python, asked):
    """The `install` list of pip's report, from an empty environment."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        report = os.path.join(folder, "report.json")
        requirements = os.path.join(folder, "requirements.txt")
        with open(requirements, "w", encoding="utf-8") as file:
            file.writelines(without_checksums(asked))
        subprocess.run([os.path.join(folder, "bin", "python"), "-m", "pip", "install", "--quiet", "--dry-run",
                        "--only-binary", ":all:", "--report", report, "-r", requirements], check=True)
        with open(report, encoding="utf-8") as file:
            return json.load(file)["install"]


def checksum(download):
    """sha256 of a wheel. pip knows none for a file on the disk whose address has none."""
    archive = download.get("archive_info", {})
    known = archive.get("hashes", {}).get("sha256") or archive.get("hash", "").partition("sha256=")[2]
    if known:
        return known
    address = urllib.parse.urlsplit(download["url"])
    if address.scheme != "file":
        sys.exit("error: pip reports no sha256 for " + download["url"])
    with open(urllib.request.url2pathname(address.path), "rb") as file:
        digest = hashlib.sha256()
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name")
    parser.add_argument("--python", default="/usr/bin/python3")
    options = parser.parse_args()
    asked = os.path.join(HERE, options.name + ".in")
    with open(asked, encoding="utf-8") as file:
        text = file.read()
    base = re.findall(r"^-r +(\S+)$", text, re.MULTILINE)
    # `--no-binary NAME`: what is published as source only
    chosen = re.findall(r"^--no-binary +\S+\n", text, re.MULTILINE)
    known = set()
    for lock in base:
        with open(os.path.join(HERE, lock), encoding="utf-8") as file:
            known.update(canonical(line.split("==")[0]) for line in file if "==" in line)
    lines = [HEAD % (options.name, options.name)] + ["-r %s\n" % lock for lock in base] + chosen
    found = {canonical(package["metadata"]["name"]): package for package in resolve(options.python, asked)}
    for name in sorted(set(found) - known):
        package = found[name]
        lines.append("%s==%s --hash=sha256:%s\n" % (name, package["metadata"]["version"], checksum(package["download_info"])))
    target = os.path.join(HERE, options.name + ".txt")
    with open(target + ".new", "w", encoding="utf-8") as file:
        file.writelines(lines)
    os.replace(target + ".new", target)
    print("%s: %d packages" % (os.path.relpath(target), len(lines) - 1 - len(base) - len(chosen)))


main()
