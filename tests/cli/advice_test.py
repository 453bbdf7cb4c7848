#!/usr/bin/env python3
"""config/advice.json holds what the sources advise: each id that they name is a row, and no row is of no use.

usage: advice_test.py REPOSITORY
"""
import json
import re
import sys
from pathlib import Path

ROOT = Path(sys.argv[1])
NAMED = re.compile(r'(?:Advice(?:Text)?\(|next\.emplace_back\(|[?:] *)\s*(?:fmt::format\(\s*)?"([a-z_]+\.[a-z_ {}]+)"')

rows = json.loads((ROOT / "config/advice.json").read_text("utf-8"))
texts = [path.read_text("utf-8") for path in sorted((ROOT / "src").rglob("*.cpp"))]
texts.append((ROOT / "config/config_check.json").read_text("utf-8"))
commands = {row.split(".")[0] for row in rows}
named = {name for text in texts for name in NAMED.findall(text) if name.split(".")[0] in commands}
# "compare.wrong_{}": any row that begins so.
made = {name[: name.index("{")] for name in named if "{" in name}
for name in sorted(named):
    assert name in rows or "{" in name and any(row.startswith(name[: name.index("{")]) for row in rows), "no row %s" % name
for row in rows:
    used = '"%s"' % row in "".join(texts) or any(row.startswith(beginning) for beginning in made)
    assert used, "nothing gives the advice %s" % row
assert len(named) > 40, named

# Pages know English texts by the first row that fits.
fits = []
for row, text in rows.items():
    parts = re.split(r"\{\d\}|\(s\)", text["en"])
    said = "value".join(parts)
    found = next((earlier for earlier, pattern in fits if row != "text" and pattern.fullmatch(said)), None)
    assert found is None, "%s comes before %s and fits its text" % (found, row)
    fits.append((row, re.compile("(.+?)".join(map(re.escape, parts)), re.S)))
print("advice: %d rows, %d ids named" % (len(rows), len(named)))
