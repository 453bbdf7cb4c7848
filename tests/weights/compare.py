"""Runs msprobe ckpt_compare and reads its table of details."""

import json
import subprocess
import tempfile
from pathlib import Path


def compare(msprobe, a, b, *flags):
    """The exit code, the first line of the screen, and the details as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run([msprobe, "ckpt_compare", str(a), str(b), "-o", f"{folder}/r.json", "--format", "json",
                                 "--quiet", "--fail-on",
                                 "different", *flags], capture_output=True, text=True, check=False)
        details = Path(folder) / "r_details.json"
        table = json.loads(details.read_text()) if details.exists() else None
        return result.returncode, result.stdout + result.stderr, table


def rows(table):
    return {row["name"]: row for row in table["parameters"]}
