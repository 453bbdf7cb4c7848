#!/usr/bin/env python3
"""Writes the bill of materials of a release as SPDX 2.3 JSON: what is linked into the program and its libraries, and what is in its pages.

usage: tools/dev/make_sbom.py VERSION [FILE...] > msprobe-VERSION.spdx.json

FILE: packages of the release; each is listed with its SHA-256. Libraries are those of cmake/Dependencies.cmake, with the versions that are
installed here and the licences of docs/design/dependencies.md; packages of pages are those of tools/web/package-lock.json. A library
without a row, a package or a licence is an error: the bill would be incomplete. Equal inputs give equal bytes; SOURCE_DATE_EPOCH is the time in it.
"""
import hashlib
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Names of cmake/Dependencies.cmake that are not part of the name of their Debian package.
PACKAGES = {"highway": "libhwy-dev", "openssl": "libssl-dev"}
# Opened while running if the host has them: declarations alone are compiled in.
OPENED = {"openssl"}
# In the pages for browsers, as docs/design/dependencies.md says.
IN_PAGES = ("uplot", "preact", "htm")
SPDX_NAMES = {"public domain": "blessing"}  # SQLite's own dedication


def fail(text):
    sys.exit("error: " + text)


def dependencies():
    """Names of cmake/Dependencies.cmake, in their order."""
    return re.findall(r"^msprobe_dependency\((\w+) ", (ROOT / "cmake/Dependencies.cmake").read_text(encoding="utf-8"), re.M)


def licences():
    """{Debian package: (name of the library, SPDX licence)} of the tables in docs/design/dependencies.md."""
    text = (ROOT / "docs/design/dependencies.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.+?) [\d.]+ \| `([\w.+-]+)` \| ([^|]+) \|", text, re.M)
    return {package: (name, SPDX_NAMES.get(licence.strip(), licence.strip())) for name, package, licence in rows}


def package_of(name):
    """The one of tools/install_dependencies.sh build."""
    listed = subprocess.run([str(ROOT / "tools/install_dependencies.sh"), "--list", "build"], stdout=subprocess.PIPE, universal_newlines=True,
                            check=True).stdout.split()
    found = [PACKAGES[name]] if name in PACKAGES else [package for package in listed if name.replace("_", "-") in package]
    return found[0] if found else fail("tools/install_dependencies.sh lists no package of %s" % name)


def debian_version(package):
    shown = subprocess.run(["dpkg-query", "-W", "-f=${Version} ${source:Package}", package], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                           universal_newlines=True, check=False)
    if shown.returncode:
        fail("%s is not installed: its version is not known (tools/install_dependencies.sh build)" % package)
    return shown.stdout.split(" ")


def entry(name, version, licence, **more):
    identifier = "SPDXRef-" + re.sub(r"[^A-Za-z0-9.]+", "-", name).strip("-")
    return dict({"SPDXID": identifier, "name": name, "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": False,
                 "licenseConcluded": licence, "licenseDeclared": licence, "copyrightText": "NOASSERTION"}, **more)


def components():
    """[(entry, relation to msprobe)]"""
    known, found = licences(), []
    for name in dependencies():
        package = package_of(name)
        if package not in known:
            fail("docs/design/dependencies.md has no row for %s" % package)
        title, licence = known[package]
        version, source = debian_version(package)
        purl = "pkg:deb/debian/%s@%s" % (source, version.replace(":", "%3A").replace("+", "%2B"))
        found.append((entry(title, version, licence, externalRefs=[
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}]),
            "OPTIONAL_DEPENDENCY_OF" if name in OPENED else "STATIC_LINK"))
    version = subprocess.run(["g++", "-dumpfullversion"], stdout=subprocess.PIPE, universal_newlines=True, check=True).stdout.strip()
    for name in ("libstdc++", "libgcc"):
        found.append((entry(name, version, "GPL-3.0-or-later WITH GCC-exception-3.1"), "STATIC_LINK"))
    locked = json.loads((ROOT / "tools/web/package-lock.json").read_text(encoding="utf-8"))["packages"]
    for name in IN_PAGES:
        package = locked["node_modules/" + name]
        found.append((entry(name, package["version"], package["license"], externalRefs=[
            {"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": "pkg:npm/%s@%s" % (name, package["version"])}]), "CONTAINS"))
    return found


def bill(version, files):
    when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ.get("SOURCE_DATE_EPOCH", "0"))))
    own = entry("msprobe", version, "Apache-2.0")
    parts = components()
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": own["SPDXID"]}]
    for part, relation in parts:
        ends = (part["SPDXID"], own["SPDXID"]) if relation.endswith("_OF") else (own["SPDXID"], part["SPDXID"])
        relations.append({"spdxElementId": ends[0], "relationshipType": relation, "relatedSpdxElement": ends[1]})
    packed = []
    for file in files:
        content = Path(file).read_bytes()
        packed.append({"SPDXID": "SPDXRef-File-" + re.sub(r"[^A-Za-z0-9.-]", "-", Path(file).name), "fileName": "./" + Path(file).name,
                       "checksums": [{"algorithm": name.upper(), "checksumValue": hashlib.new(name, content).hexdigest()} for name in ("sha1", "sha256")],
                       "licenseConcluded": "NOASSERTION", "copyrightText": "NOASSERTION"})
        relations.append({"spdxElementId": packed[-1]["SPDXID"], "relationshipType": "GENERATED_FROM", "relatedSpdxElement": own["SPDXID"]})
    # Names of documents must be unique; nothing answers at them.
    digest = hashlib.sha256(json.dumps([version, packed, [part for part, _ in parts]], sort_keys=True).encode()).hexdigest()
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "msprobe-" + version,
            "documentNamespace": "https://msprobe.invalid/spdx/msprobe-%s-%s" % (version, digest[:32]),
            "creationInfo": {"created": when, "creators": ["Tool: msprobe tools/dev/make_sbom.py"]},
            "packages": [own] + [part for part, _ in parts], "files": packed, "relationships": relations}


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    json.dump(bill(sys.argv[1], sys.argv[2:]), sys.stdout, indent=1)
    print()
