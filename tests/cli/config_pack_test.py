#!/usr/bin/env python3
"""A pack of `config_check -d` as Python's own zipfile and json see it.

usage: config_pack_test.py MSPROBE SOURCE_FOLDER
"""
import json
import os
import stat
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

STATIC = "hyperparameters/hyperparameters_static.json"
SECRET = "swordfish"


def packages_here():
    """{lower-case name: version} as this interpreter's own metadata tells."""
    code = ("import importlib.metadata as m, json\n"
            "seen = {}\n"
            "for d in m.distributions():\n"
            "    if d.metadata['Name']: seen.setdefault(d.metadata['Name'].lower(), d.version)\n"
            "print(json.dumps(seen))")
    return json.loads(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout)


def main():
    msprobe, source = sys.argv[1], Path(sys.argv[2])
    inputs = source / "tests" / "data" / "config_check" / "dump_inputs"
    with tempfile.TemporaryDirectory() as folder:
        pack = Path(folder) / "new" / "pack.zip"
        environment = dict(os.environ, MY_API_KEY=SECRET, UMLAUT="\u00fc", http_proxy="http://me:%s@proxy:80" % SECRET)
        command = [msprobe, "config_check", "-d", str(inputs / "bench.sh"), str(inputs / "y1.yaml"), "-o", str(pack),
                   "--python", sys.executable]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.returncode == 0, done.stdout.decode()
        assert SECRET.encode() not in done.stdout
        assert stat.S_IMODE(pack.stat().st_mode) & ~0o640 == 0
        with zipfile.ZipFile(str(pack)) as archive:
            assert archive.testzip() is None
            assert archive.namelist() == ["env", "pip", "versions", STATIC], archive.namelist()
            for member in archive.infolist():
                assert member.date_time == (1980, 1, 1, 0, 0, 0), member
                assert member.compress_type == zipfile.ZIP_DEFLATED, member
            texts = {name: archive.read(name).decode("ascii") for name in archive.namelist()}
        for name in ("env", "versions", STATIC):
            value = json.loads(texts[name])
            assert json.dumps(value, indent=4) == texts[name], name
        recorded = json.loads(texts["env"])
        assert set(recorded) == set(environment), set(recorded) ^ set(environment)
        changed = [name for name in recorded if recorded[name] != environment[name] and "***" not in recorded[name]]
        assert not changed, changed
        assert recorded["UMLAUT"] == "\u00fc" and recorded["MY_API_KEY"] == "***"
        assert SECRET not in texts["env"]
        pairs = [line.split("=") for line in texts["pip"].splitlines()]
        assert all(len(pair) == 2 for pair in pairs)
        mine, theirs = {name.lower(): version for name, version in pairs}, packages_here()
        assert mine == theirs, sorted(set(mine.items()) ^ set(theirs.items()))
        static = json.loads(texts[STATIC])
        assert static["tensor-model-parallel-size"] == "1" and static["lr3"] == 0.0001

        broken = subprocess.run([msprobe, "config_check", "-d", str(inputs / "no.sh"), "-o", str(pack), "--force"],
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert broken.returncode == 3 and b"no.sh" in broken.stdout, broken.stdout
        with zipfile.ZipFile(str(pack)) as archive:
            assert STATIC not in archive.namelist()
    return 0


if __name__ == "__main__":
    sys.exit(main())
