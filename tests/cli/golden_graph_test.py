#!/usr/bin/env python3
"""Builds and compares graphs of golden dumps; both files must say what both lines of the Python tool say.

usage: see golden_cases.py

A case holds npu/ and perhaps bench/, case.json (the arguments and exit codes of both lines), expected_vis/ (8.1.1's files, without
the time in their names) and expected_db/ (the tables of the 26.x line as csv, sorted; \\N is NULL).
"""
import csv
import json
import math
import re
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import golden_cases

csv.field_size_limit(10 ** 9)
EITHER = ("empty_construct", "rank_sets_differ")  # the two lines disagree
NODE_FIELDS = ("id", "node_type", "upnode", "subnodes", "matched_node_link", "stack_info", "micro_step_id")
ROW_FIELDS = ("id", "graph_id", "node_order", "node_type", "up_node", "micro_step_id", "modified", "is_distributed")


def number(text):
    try:
        return float(str(text).rstrip("%\t "))
    except ValueError:
        return None


def same(a, b):
    if a == b:
        return True
    x, y = number(a), number(b)
    if x is None or y is None:
        return str(a).strip() == str(b).strip()
    if math.isnan(x) or math.isinf(x):
        return str(x) == str(y)
    return abs(x - y) <= 2e-6 * max(1, abs(x), abs(y))


def score_items(expected, got, where, score):
    score.count(set(expected) == set(got), "%s: items %s" % (where, sorted(set(expected) ^ set(got))[:3]))
    for name in set(expected) & set(got):
        want, have = expected[name], got[name]
        score.count(set(want) == set(have), "%s %s: fields %s" % (where, name, sorted(set(want) ^ set(have))[:4]))
        for field in set(want) & set(have) - {"Err_message"}:  # our own words
            score.count(same(want[field], have[field]), "%s %s %s: %r instead of %r" % (where, name, field, have[field], want[field]))


def score_partners(want, got, where, score):
    agrees = want == got
    if isinstance(want, dict) and isinstance(got, dict) and want.get("communications_type") == got.get("communications_type"):
        a, b = want.get("nodes_info", {}), got.get("nodes_info", {})
        agrees = set(a) == set(b) and all(a[rank][1] == b[rank][1] and same(a[rank][0], b[rank][0]) for rank in a)
    score.count(agrees, "%s: partners %s instead of %s" % (where, got, want))


def score_side(expected, got, where, score):
    score.count(expected["root"] == got.get("root"), where + ": root")
    want, have = expected["node"], got.get("node", {})
    score.count(set(want) == set(have), "%s: nodes %s" % (where, sorted(set(want) ^ set(have))[:3]))
    for name in set(want) & set(have):
        x, y, place = want[name], have[name], "%s %s" % (where, name)
        for field in NODE_FIELDS:
            score.count(x.get(field) == y.get(field), "%s %s: %.90s instead of %.90s" % (place, field, y.get(field), x.get(field)))
        for field in set(x["data"]) | set(y.get("data", {})):
            score.count(same(x["data"].get(field), y["data"].get(field)),
                        "%s %s: %s instead of %s" % (place, field, y["data"].get(field), x["data"].get(field)))
        for part in ("input_data", "output_data"):
            score_items(x[part], y.get(part, {}), place, score)
        score_partners(x.get("matched_distributed") or {}, y.get("matched_distributed") or {}, place, score)


def score_vis(expected, got, where, score):
    for key in ("MicroSteps", "task", "OverflowCheck"):
        score.count(expected.get(key) == got.get(key), "%s %s: %s" % (where, key, got.get(key)))
    for color, meaning in expected.get("Colors", {}).items():
        score.count(meaning["value"] == got.get("Colors", {}).get(color, {}).get("value"), "%s: colour %s" % (where, color))
    if "NPU" not in expected:
        score_side(expected, got, where, score)
        return
    for side in ("NPU", "Bench"):
        score_side(expected[side], got.get(side, {}), where + " " + side, score)


def loads(text, otherwise):
    return json.loads(text) if text else otherwise


def columns_of(schema, table):
    body = re.search(r"CREATE TABLE %s \(([^;]*)\)" % table, schema).group(1)
    return [line.strip().split()[0] for line in body.split(",")]


def score_database(expected, path, score):
    database = sqlite3.connect(str(path))
    database.row_factory = sqlite3.Row
    schema = (expected / "schema.sql").read_text()
    for table in ("tb_nodes", "tb_config", "tb_stack"):
        got = [row["name"] for row in database.execute("pragma table_info(%s)" % table)]
        score.count(columns_of(schema, table) == got, "%s: columns %s" % (table, got))
    indices = {row[0] for row in database.execute("select name from sqlite_master where type='index'")}
    score.count({"index%d" % i for i in range(1, 8)} <= indices, "indices %s" % sorted(indices))
    rows = {(row["step"], row["rank"], row["data_source"], row["node_name"]): row for row in
            database.execute("select n.*, s.stack_info from tb_nodes n left join tb_stack s on n.stack_id = s.id")}
    with open(expected / "tb_stack.csv", newline="") as file:
        stacks = {row["id"]: row["stack_info"] for row in csv.DictReader(file)}
    with open(expected / "tb_nodes.csv", newline="") as file:
        wanted = list(csv.DictReader(file))
    score.count(len(wanted) == len(rows), "%d nodes instead of %d" % (len(rows), len(wanted)))
    for want in wanted:
        key = (int(want["step"]), int(want["rank"]), want["data_source"], want["node_name"])
        where = "/".join(map(str, key))
        row = rows.get(key)
        score.count(row is not None, where + " is missing")
        if row is None:
            continue
        for field in ROW_FIELDS:
            score.count(str(row[field]) == want[field], "%s %s: %s instead of %s" % (where, field, row[field], want[field]))
        for field in ("precision_index", "overflow_level"):
            got = "\\N" if row[field] in (None, "") else row[field]
            score.count(same(want[field], got), "%s %s: %s instead of %s" % (where, field, got, want[field]))
        for field in ("sub_nodes", "matched_node_link"):
            score.count(loads(want[field], []) == loads(row[field], []), "%s %s: %.90s" % (where, field, row[field]))
        score.count(json.loads(stacks[want["stack_id"]]) == loads(row["stack_info"], None), where + ": stack")
        for field in ("input_data", "output_data"):
            score_items(json.loads(want[field]), loads(row[field], {}), where, score)
        score_partners(loads(want["matched_distributed"], {}), loads(row["matched_distributed"], {}), where, score)
    score_config(expected, database, score)


def score_config(expected, database, score):
    with open(expected / "tb_config.csv", newline="") as file:
        want = next(csv.DictReader(file))
    got = database.execute("select * from tb_config").fetchall()
    score.count(len(got) == 1, "%d rows of tb_config" % len(got))
    for field in ("id", "graph_type", "micro_steps", "overflow_check"):
        score.count(str(got[0][field]) == want[field], "tb_config %s: %s" % (field, got[0][field]))
    score.count((got[0]["task"] or "") == want["task"], "tb_config task: %s" % got[0]["task"])
    for field in ("rank_list", "step_list"):
        score.count(json.loads(want[field]) == json.loads(got[0][field]), "tb_config %s" % field)
    a, b = (loads(text, None) or {} for text in (want["node_colors"], got[0]["node_colors"]))
    score.count({color: meaning["value"] for color, meaning in a.items()} == {color: meaning["value"] for color, meaning in b.items()},
                "tb_config node_colors")


def run_case(msprobe, case, score):
    about = json.loads((case / "case.json").read_text())
    with tempfile.TemporaryDirectory(prefix="msprobe_golden_") as scratch:
        scratch = Path(scratch)
        paths = {"npu_path": str(case / "npu")}
        if about["bench"]:
            paths.update(bench_path=str(case / "bench"), is_print_compare_log=False)
        (scratch / "in.json").write_text(json.dumps(paths))
        files = [str(case / word) if word.endswith(".yaml") else word for word in about["args_811"]]
        ended = subprocess.run([str(msprobe), "-f", "pytorch", "graph", "-i", str(scratch / "in.json"), "-o", str(scratch / "out")] + files,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, check=False)
        if case.name in EITHER or (about["rc_811"] and about["rc_26"]):
            score.count(ended.returncode in ((0, 3) if case.name in EITHER else (3,)), "exit status %d" % ended.returncode)
            return
        score.count(ended.returncode == 0, "exit status %d: %s" % (ended.returncode, ended.stdout.decode()[-300:]))
        written = {re.sub(r"_\d{14}", "", path.name): path for path in (scratch / "out").glob("*")}
        for expected in sorted((case / "expected_vis").glob("*.vis")):
            score.count(expected.name in written, "no file " + expected.name)
            if expected.name in written:
                score_vis(json.loads(expected.read_text()), json.loads(written[expected.name].read_text()), expected.name, score)
        databases = [path for name, path in written.items() if name.endswith(".vis.db")]
        score.count(len(databases) == 1, "%d databases" % len(databases))
        if databases:
            score_database(case / "expected_db", databases[0], score)


if __name__ == "__main__":
    sys.exit(golden_cases.main("graph", "case.json", run_case))
