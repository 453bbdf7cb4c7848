"""Results of release 26.2.0 of the Python tool, one topic of tests/data/msprobe262.

    golden_msprobe262_test.py MSPROBE CASES_FOLDER TOPIC [CASE...]

A case is a folder with cmd.txt, a command line of msprobe, or run.py, a script for the Python package on PYTHONPATH. It runs in a copy of the
folder (over the one that inputs.txt names) and writes output/, which is held against expected/ value by value. intended/ has rows that the
Python tool should have given: they may be there. Only that there is an error is compared, not its text. Exit status 77 (skipped) where
this Python lacks what the topic needs.
"""
import csv
import json
import math
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import golden_cases

KEYS = {"slime": ["超参名称"], "compare": ["NPU Name", "Bench Name"],
        "data2db": ["rank", "step", "target_name", "vpp_stage", "micro_step", "metric_name", "tag_name", "category"],
        "monitor_v2": ["step", "vpp_stage", "module_name", "scope", "micro_step"],
        "precision_checker": ["module_name", "check_type", "tensor_index"]}
TOLERANCES = {"slime": (0, 0), "compare": (1e-4, 2e-12), "data2db": (1e-6, 1e-12), "monitor_v2": (5e-5, 1e-7),
              "precision_checker": (2e-2, 1e-6)}
EXACT_COLUMNS = ("NPU生效值", "bench生效值")
QUERIES = {
    "trend.csv": "select t.rank,t.step,g.target_name,g.vpp_stage,g.micro_step,m.metric_name,t.norm,t.max,t.min,t.mean from trend_data t "
                 "join monitoring_targets g using(target_id) join monitoring_metrics m using(metric_id)",
    "tags.csv": "select g.target_name,t.tag_name,t.category,m.metric_name from tag_target_mapping x join monitoring_tags t using(tag_id) "
                "join monitoring_targets g using(target_id) join monitoring_metrics m using(metric_id)"}


# ---- values ----

def number(text):
    try:
        return float(text.strip().rstrip("%"))
    except ValueError:
        return None


def close(a, b, relative, absolute):
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or abs(a - b) <= max(relative * abs(a), absolute)


def same_cell(column, wanted, got, tolerance):
    wanted, got = wanted.strip(), got.strip()
    if wanted == got or column in EXACT_COLUMNS:
        return wanted == got
    if column.lower() == "err_message":
        return re.findall("(error|warning):", wanted) == re.findall("(error|warning):", got)
    a, b = number(wanted), number(got)
    return a is not None and b is not None and wanted.endswith("%") == got.endswith("%") and close(a, b, *tolerance)


def compare_json(wanted, got, where, score):
    if isinstance(wanted, dict) and isinstance(got, dict):
        if "error" in wanted and "error" in got:
            score.count(True, "")
            return
        ignored = {"dump_data_dir", "is_recompute"}
        for key in sorted(set(wanted) ^ set(got) - ignored, key=str):
            score.count(key in ignored, "%s.%s is on one side only" % (where, key))
        for key in set(wanted) & set(got) - ignored:
            compare_json(wanted[key], got[key], "%s.%s" % (where, key), score)
    elif isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
        if where.endswith((".entries", ".files")) or ".entries." in where:
            wanted, got = sorted(wanted, key=str), sorted(got, key=str)
        for index, (a, b) in enumerate(zip(wanted, got)):
            compare_json(a, b, "%s[%d]" % (where, index), score)
    else:
        numbers = all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in (wanted, got))
        relative = 2e-2 if ".diffs[" in where else 1e-4
        good = close(float(wanted), float(got), relative, 2e-6) if numbers else wanted == got
        score.count(good, "%s: %r, not %r" % (where, got, wanted))


# ---- tables ----

def read_csv(path):
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def compare_tables(topic, case, name, wanted_path, got_path, score):
    keys, tolerance = KEYS[topic], TOLERANCES[topic]
    wanted, got = read_csv(wanted_path), read_csv(got_path)

    def key_of(row):
        return tuple(row.get(key) for key in keys)

    def agrees(row, other):
        return all(same_cell(column, value or "", other.get(column) or "", tolerance) for column, value in row.items())

    rows = {}
    for row in got:
        rows.setdefault(key_of(row), []).append(row)
    if wanted and got:
        score.count(list(wanted[0]) == list(got[0]), "%s: columns %s" % (name, list(got[0])))
    for row in wanted:
        other = (rows.get(key_of(row)) or [None]).pop(0)
        score.count(other is not None, "%s: no row %s" % (name, key_of(row)))
        for column, value in row.items() if other is not None else ():
            score.count(same_cell(column, value or "", other.get(column) or "", tolerance),
                        "%s %s %s: %r, not %r" % (name, key_of(row), column, other.get(column), value))
    intended = case / "intended" / name
    allowed = {key_of(row): row for row in read_csv(intended)} if intended.exists() else {}
    for row in (row for many in rows.values() for row in many):
        of_inputs = (topic == "precision_checker" and "single" in case.name
                     and row["check_type"] in ("fwd_input", "grad_output"))  # the Python tool never reports them
        known = allowed.get(key_of(row))
        score.count(of_inputs or known is not None and agrees(known, row), "%s: extra row %s" % (name, key_of(row)))


def compare_calls(name, wanted_path, got_path, score):
    """The rows of random_save: names, and the frames of the script."""
    def calls(path):
        return [(row["api_name"], re.findall(r"File [^\n]*?run\.py, line (\d+), in ([^\n]*?), \n ([^\n]*?) \n", row["stack"]))
                for row in read_csv(path)]

    wanted, got = calls(wanted_path), calls(got_path)
    score.count(len(wanted) == len(got), "%s: %d rows, not %d" % (name, len(got), len(wanted)))
    for a, b in zip(wanted, got):
        score.count(a == b, "%s: %s, not %s" % (name, b, a))


# ---- one case ----

def result_files(folder):
    """The files by names without times and numbers of processes."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file():
            name = re.sub(r"_\d{14}(?=\.)", "", str(path.relative_to(folder)))
            found[re.sub(r"(proc|rank_?)\d+(?=\.csv)", r"\1", name)] = path
    return found


def write_out_databases(folder):
    for path in folder.glob("*.db"):
        with sqlite3.connect(path) as database:
            for name, query in QUERIES.items():
                rows = database.execute(query)
                with open(folder / name, "w", newline="") as file:
                    writer = csv.writer(file)
                    writer.writerow([column[0] for column in rows.description])
                    writer.writerows(rows)
        path.unlink()


def compare_results(topic, case, output, score):
    wanted, got = result_files(case / "expected"), result_files(output)
    wanted.pop("exit_code.txt", None)
    for name, path in sorted(wanted.items()):
        if name not in got:
            score.count(False, "no result %s" % name)
        elif name.endswith(".json"):
            compare_json(json.loads(path.read_text()), json.loads(got[name].read_text()), name, score)
        elif topic == "random":
            compare_calls(name, path, got[name], score)
        else:
            compare_tables(topic, case, name, path, got[name], score)
    for name in set(got) - {"summary.json"}:  # ours
        score.count(name in wanted or (case / "intended" / name).exists(), "extra result %s" % name)


def run_case(msprobe, case, score):
    topic, root = case.parent.name, case.parent.parent
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "case"
        folder.mkdir()
        inputs = case / "inputs.txt"
        if inputs.exists():
            shutil.copytree(case / inputs.read_text().strip(), folder, dirs_exist_ok=True)
        shutil.copytree(case, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("expected", "intended", "__pycache__"))
        for path in folder.glob("*.yaml"):
            path.write_text(path.read_text().replace("<CASE>", str(folder)))
        environment = dict(os.environ, MSPROBE=str(msprobe), PYTHONDONTWRITEBYTECODE="1")
        if (case / "cmd.txt").exists():
            line = (case / "cmd.txt").read_text().strip().replace("<ALGORITHMS>", "--algorithms algorithms --python " + sys.executable)
            command = ["bash", "-c", re.sub("^msprobe ", '"$MSPROBE" ', line)]
        else:
            command = [sys.executable, "run.py"]
            environment["PYTHONPATH"] = os.pathsep.join([environment.get("PYTHONPATH", ""), str(root / topic), str(root)])
            if (folder / "custom_wrap_ops.yaml").exists():
                environment["MSPROBE_CUSTOM_WRAP_OPS"] = str(folder / "custom_wrap_ops.yaml")
        run = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        output = run.stdout.decode("utf-8", "replace")
        exit_code = case / "expected" / "exit_code.txt"
        fails = exit_code.exists() and int(exit_code.read_text()) != 0
        score.count((run.returncode != 0) == fails and " has no flag " not in output,
                    "exit status %d: %s" % (run.returncode, output[-600:]))
        write_out_databases(folder / "output")
        compare_results(topic, case, folder / "output", score)


def lacks(topic):
    """Whether this Python cannot run the cases."""
    if topic == "slime":
        return False
    try:
        import torch
    except ImportError:
        return True
    return topic == "precision_checker" and not hasattr(torch, "compile")


if __name__ == "__main__":
    topic = sys.argv.pop(3)
    if lacks(topic):
        sys.exit(golden_cases.SKIPPED)
    folder = Path(sys.argv[2]) / topic
    sys.argv[2] = str(folder)
    marker = "cmd.txt" if any(folder.glob("*/cmd.txt")) else "run.py"
    sys.exit(golden_cases.main("msprobe262/" + topic, marker, run_case))
