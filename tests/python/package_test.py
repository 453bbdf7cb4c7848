#!/usr/bin/env python3
"""The built package installs with pip from its folder, offline, and works from anywhere.

usage: tests/python/package_test.py BUILT_PACKAGE_FOLDER
"""
import os
import shutil
import subprocess
import sys
import tempfile


def main():
    built = sys.argv[1]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "source"), os.path.join(folder, "target")
        shutil.copytree(built, source)  # pip leaves its work beside the sources
        subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-build-isolation", "--no-deps",
                        "--root-user-action", "ignore", "--target", target, source], check=True, env=environment)
        code = "import msprobe, msprobe._native; print(msprobe.__file__)"
        done = subprocess.run([sys.executable, "-c", code], check=True, cwd=folder, stdout=subprocess.PIPE, text=True,
                              env={**environment, "PYTHONPATH": target})
        installed = done.stdout.strip()
        assert installed.startswith(target), installed
        for name in ("captured_apis.json", "libmsprobe_capture.so", "_inject/sitecustomize.py", "_intercept/modules.py", "pytorch/debugger.py", "mindspore/debugger.py", "core/config_check/checker.py"):
            path = os.path.join(target, "msprobe", name)
            assert os.path.exists(path), f"{name} is not installed"
        wheels = [name for name in os.listdir(target) if name.endswith(".dist-info")]
        assert len(wheels) == 1, wheels
        with open(os.path.join(target, wheels[0], "WHEEL"), encoding="utf-8") as file:
            tags = [line for line in file if line.startswith("Tag:")]
        assert all("cp38-abi3" in tag for tag in tags), tags
    print("installed, imported, removed")


if __name__ == "__main__":
    main()
