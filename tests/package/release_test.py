#!/usr/bin/env python3
"""What tools/release.sh puts around the packages, and what it refuses; the bill of materials; the workflow and the forms of .github.

usage: release_test.py REPOSITORY

The script runs in a copy of the few files that it reads, over packages that are a few bytes each.
"""
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

REPOSITORY = None
READ = ["CMakeLists.txt", "CHANGELOG.md", "cmake/Dependencies.cmake", "docs/design/dependencies.md", "tools/release.sh", "tools/dev/common.sh",
        "tools/dev/make_sbom.py", "tools/install_dependencies.sh", "tools/web/package-lock.json"]


class Release(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="msprobe_release_")
        self.addCleanup(scratch.cleanup)
        self.root = Path(scratch.name)
        for name in READ:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / name, self.root / name)
        self.version = re.search(r"^project\(msprobe VERSION ([\d.]+)", (self.root / "CMakeLists.txt").read_text(encoding="utf-8"), re.M).group(1)
        packages = self.root / "build-package"
        packages.mkdir()
        for machine, debian in (("x86_64", "amd64"), ("aarch64", "arm64")):
            for name in ("msprobe-%s-py3-none-manylinux_2_17_%s.whl" % (self.version, machine), "msprobe-%s-linux-%s.tar.gz" % (self.version, machine),
                         "msprobe_%s_%s.deb" % (self.version, debian)):
                (packages / name).write_text(name)

    def release(self, *flags):
        run = subprocess.run(["tools/release.sh", "--made", *flags], cwd=self.root, env=dict(os.environ, SOURCE_DATE_EPOCH="1700000000"),
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=120, check=False)
        return run.returncode, run.stdout

    def test_packages_checksums_bill_and_notes(self):
        code, text = self.release("--rehearsal")
        self.assertEqual(code, 0, text)
        made = self.root / "build-release" / ("msprobe-" + self.version)
        sums = dict(reversed(line.split("  ")) for line in (made / "SHA256SUMS").read_text().splitlines())
        files = sorted(path.name for path in made.iterdir() if path.name != "SHA256SUMS")
        self.assertEqual(len(files), 6 + 2)
        self.assertEqual(sorted(sums), files)
        for name, digest in sums.items():
            self.assertEqual(hashlib.sha256((made / name).read_bytes()).hexdigest(), digest)
        notes = (made / "NOTES.md").read_text(encoding="utf-8")
        self.assertIn("msprobe dump", notes)
        self.assertNotIn("\n## ", notes)
        bill = json.loads((made / ("msprobe-%s.spdx.json" % self.version)).read_text())
        self.assertEqual(bill["creationInfo"]["created"], "2023-11-14T22:13:20Z")
        self.assertEqual({file["fileName"][2:]: file["checksums"][1]["checksumValue"] for file in bill["files"]},
                         {name: digest for name, digest in sums.items() if name.endswith((".whl", ".deb", ".tar.gz"))})
        self.release("--rehearsal")
        self.assertEqual(sums, dict(reversed(line.split("  ")) for line in (made / "SHA256SUMS").read_text().splitlines()), "the same again")

    def test_what_is_missing_is_named(self):
        code, text = self.release("--rehearsal", "--unknown")
        self.assertEqual((code, "unknown argument --unknown" in text), (1, True), text)
        changes = self.root / "CHANGELOG.md"
        dated = re.sub(r"^(## %s) .*$" % re.escape(self.version), r"\1 (not released)", changes.read_text(encoding="utf-8"), flags=re.M)
        changes.write_text(dated, encoding="utf-8")
        code, text = self.release()
        self.assertEqual((code, "does not date" in text), (1, True), text)
        changes.write_text(dated.replace("## " + self.version, "## 9.9.9"), encoding="utf-8")
        code, text = self.release("--rehearsal")
        self.assertEqual((code, "no section for " + self.version in text), (1, True), text)
        changes.write_text(dated, encoding="utf-8")
        next((self.root / "build-package").glob("*arm64.deb")).unlink()
        code, text = self.release("--rehearsal")
        self.assertEqual((code, "arm64.deb" in text), (1, True), text)
        self.assertEqual(self.release("--rehearsal", "--only-this-machine")[0], 0 if os.uname().machine == "x86_64" else 1)

    def test_the_bill_lists_every_library_with_version_and_licence(self):
        bill = json.loads(subprocess.run([sys.executable, "tools/dev/make_sbom.py", "1"], cwd=self.root, stdout=subprocess.PIPE, check=True).stdout)
        linked = re.findall(r"^msprobe_dependency\(", (REPOSITORY / "cmake/Dependencies.cmake").read_text(encoding="utf-8"), re.M)
        self.assertEqual(len(bill["packages"]), 1 + len(linked) + 2 + 3)
        identifiers = [part["SPDXID"] for part in bill["packages"]]
        self.assertEqual(len(set(identifiers)), len(identifiers))
        for part in bill["packages"]:
            with self.subTest(part=part["name"]):
                self.assertRegex(part["SPDXID"], r"^SPDXRef-[A-Za-z0-9.-]+$")
                self.assertRegex(part["versionInfo"], r"^\d")
                self.assertNotIn(part["licenseConcluded"], ("", "NOASSERTION"))
        ends = {end for relation in bill["relationships"] for end in (relation["spdxElementId"], relation["relatedSpdxElement"])}
        self.assertEqual(ends, set(identifiers) | {"SPDXRef-DOCUMENT"})

    def test_a_library_without_a_row_is_refused(self):
        with open(self.root / "cmake/Dependencies.cmake", "a", encoding="utf-8") as file:
            file.write("\nmsprobe_dependency(novelty novelty.h)\n")
        run = subprocess.run([sys.executable, "tools/dev/make_sbom.py", "1"], cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn(b"novelty", run.stderr)


class Forge(unittest.TestCase):
    def test_workflows_run_the_commands_of_the_readme_with_pinned_actions(self):
        workflows = list((REPOSITORY / ".github/workflows").glob("*.yml"))
        self.assertTrue(workflows)
        text = "\n".join(path.read_text(encoding="utf-8") for path in workflows)
        readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
        for command in ("tools/quickstart.sh", "tools/test.sh"):
            self.assertIn("$ " + command, readme)
            self.assertRegex(text, r"(?m)^ +- run: %s$" % re.escape(command))
        for used in re.findall(r"uses: (\S+)", text):
            self.assertRegex(used, r"^[\w.-]+/[\w.-]+@[0-9a-f]{40}$")
        for script in re.findall(r"run: (tools/\S+)", text):
            self.assertTrue(os.access(REPOSITORY / script, os.X_OK), script)

    def test_reports_ask_for_the_bundle_of_doctor(self):
        form = (REPOSITORY / ".github/ISSUE_TEMPLATE/bug_report.yml").read_text(encoding="utf-8")
        page = (REPOSITORY / "docs/commands/doctor.md").read_text(encoding="utf-8")
        for flag in ("--bundle", "--logs"):
            self.assertIn("msprobe doctor", form)
            self.assertIn(flag, form)
            self.assertIn("`%s " % flag, page)


if __name__ == "__main__":
    REPOSITORY = Path(sys.argv[1]).resolve()
    unittest.main(argv=sys.argv[:1], verbosity=2)
