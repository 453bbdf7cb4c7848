#!/usr/bin/env python3
"""Runs golden cases of the training monitor through the commands that work on files.

usage: golden_monitor_test.py MSPROBE CASES_FOLDER|further

CASES lists every case with what is asked of it. Cases whose values come out of a model are run with PyTorch in tests/python/torch;
here their tables go through csv2tb, and every number must come out of the event files again, and cases with a feed are replayed.
A folder need not hold all cases; one that CASES does not know is a failure.
"""
import csv
import json
import math
import sqlite3
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import golden_cases
from event_file import read_events

EVENT_TABLES = "actv,actv_grad,exp_avg,exp_avg_sq,grad_unreduced,grad_reduced,param_origin,param_updated,other"


def run(msprobe, words, score):
    ended = subprocess.run([str(msprobe), "monitor"] + words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False)
    score.count(ended.returncode == 0, "%s: exit status %d, %s" % (words[0], ended.returncode, ended.stderr.decode()[-300:]))
    return ended


def as_float(value):
    """Rounded to what an event file holds; NaN and infinities as text."""
    value = float(value)
    if math.isfinite(value):
        try:
            return struct.unpack("<f", struct.pack("<f", value))[0]
        except OverflowError:
            value = math.copysign(math.inf, value)
    return str(value)


def all_events(folder):
    events = {}
    for path in sorted(folder.glob("rank*/*/events*")):
        key = "%s/%s" % (path.parent.parent.name, path.parent.name)
        events.setdefault(key, []).extend((tag, step, as_float(value)) for tag, step, value in read_events(path))
    return events


def expected_events(output):
    """The same out of the tables, read by Python's csv module."""
    numbers = {"True": "1", "False": "0", "None": "nan", "": "nan"}
    events = {}
    for folder in sorted(output.glob("*-rank*-*")):
        rank = folder.name.split("-rank")[1].split("-")[0]
        for path in sorted(folder.glob("*_*-*.csv")):
            table = path.name.rsplit("_", 1)[0]
            with open(path, newline="") as lines:
                rows = list(csv.reader(lines))
            head = rows[0]
            found = {}
            for row in rows[1:]:
                if len(row) != len(head):
                    continue  # the malformed rows of communication
                cells = dict(zip(head, row))
                if not cells["step"].isdigit() or not cells["vpp_stage"].isdigit():
                    continue
                tag = "vp%s:%s" % (cells["vpp_stage"], cells["name"])
                tag += ":micro%s" % cells["micro_step"] if "micro_step" in cells else ""
                for op in head:
                    if op not in ("vpp_stage", "name", "step", "micro_step", "shape", "dtype"):
                        found[("%s/%s" % (tag, op), int(cells["step"]))] = as_float(numbers.get(cells[op], cells[op]))
            events.setdefault("rank%s/%s" % (rank, table), {}).update(found)
    return {key: sorted((tag, step, value) for (tag, step), value in found.items()) for key, found in events.items() if found}


def tables_become_events(msprobe, case, score):
    with tempfile.TemporaryDirectory(prefix="msprobe_golden_") as scratch:
        run(msprobe, ["csv2tb", "--monitor_path", str(case / "output"), "--output_dirpath", scratch, "--data_type_list", EVENT_TABLES], score)
        got = all_events(Path(scratch))
        wanted = expected_events(case / "output")
        score.count(sorted(got) == sorted(wanted), "event files %s instead of %s" % (sorted(got), sorted(wanted)))
        for key, events in wanted.items():
            score.count(sorted(map(repr, got.get(key, []))) == sorted(map(repr, events)), "%s differs" % key, max(len(events), 1))


def is_replayed(msprobe, case, score):
    if list((case / "output").glob("*-rank*")):  # the others' tables lie in output itself
        tables_become_events(msprobe, case, score)
    with tempfile.TemporaryDirectory(prefix="msprobe_golden_") as scratch:
        run(msprobe, ["replay", "--feed", str(case / "feed"), "--config", str(case / "config.json"), "--output", scratch, "--compat"], score)
        wanted = {path.name: path.read_bytes() for path in case.glob("output/**/*.csv")}
        got = {path.name: path.read_bytes() for path in Path(scratch).glob("*.csv")}
        score.count(sorted(wanted) == sorted(got), "tables %s" % sorted(set(wanted) ^ set(got)))
        for name, content in wanted.items():
            score.count(got.get(name) == content, "%s differs" % name)


def alerts_are_read(msprobe, case, score):
    tables_become_events(msprobe, case, score)
    folder = case / "output/anomaly_detected"
    with tempfile.TemporaryDirectory(prefix="msprobe_golden_") as scratch:
        run(msprobe, ["analyse", "-d", str(folder), "-o", scratch, "-k", "100000"], score)
        got = json.loads((Path(scratch) / "anomaly_analyse.json").read_text())
        wanted = json.loads((folder / "rank0/anomaly.json").read_text())
        score.count(got == wanted, "not the same alerts", len(wanted))
        if (folder / "anomaly_analyse.json").exists():
            text = (folder / "anomaly_analyse.json").read_text()
            run(msprobe, ["analyse", "-d", str(folder), "-o", scratch, "-k", str(len(json.loads(text))), "--force"], score)
            score.count((Path(scratch) / "anomaly_analyse.json").read_text() == text,
                        "anomaly_analyse.json differs")


def is_analysed(msprobe, case, score):
    for item in sorted(path.parent for path in case.glob("*/expected.json")):
        for name, wanted in json.loads((item / "expected.json").read_text()).items():
            with tempfile.TemporaryDirectory(prefix="msprobe_golden_") as scratch:
                run(msprobe, ["analyse", "-d", str(item / "anomaly_detected"), "-o", scratch] + wanted["flags"], score)
                text = (Path(scratch) / "anomaly_analyse.json").read_text()
                keys = list(json.loads(text))
                score.count(keys == wanted["keys"], "%s %s: %s" % (item.name, name, keys[:3]), len(keys))
                if name == "default":
                    score.count(text == (item / "expected_default_anomaly_analyse.json").read_text(), "%s: the file differs" % item.name)


def becomes_events(msprobe, case, score):
    with tempfile.TemporaryDirectory(prefix="msprobe_golden_") as scratch:
        run(msprobe, ["csv2tb", "--monitor_path", str(case / "monitor_output"), "--output_dirpath", scratch], score)
        got = all_events(Path(scratch))
        wanted = json.loads((case / "expected.json").read_text())
        score.count(sorted(got) == sorted(wanted), "event files %s" % sorted(got))
        for key, events in wanted.items():
            events = [(tag, step, value if isinstance(value, str) else as_float(value)) for tag, step, value in events]
            score.count(sorted(map(repr, got.get(key, []))) == sorted(map(repr, events)), "%s differs" % key, len(events))


def stored(database):
    """What a trend store says, without its own numbers of names and tags."""
    queries = {
        "trend_data": "select rank, step, target_name, vpp_stage, micro_step, metric_name, norm, mean from trend_data "
                      "join monitoring_targets using(target_id) join monitoring_metrics using(metric_id)",
        "tags": "select tag_name, category, metric_name, target_name, vpp_stage, micro_step from tag_target_mapping join monitoring_tags "
                "using(tag_id) join monitoring_metrics using(metric_id) join monitoring_targets using(target_id)",
        "metrics": "select metric_id, metric_name from monitoring_metrics",
    }
    answer = {name: sorted(database.execute(query).fetchall()) for name, query in queries.items()}
    cursor = database.execute("select * from global_stats")
    answer["global_stats"] = [sorted(zip([column[0] for column in cursor.description], row)) for row in cursor]
    return answer


def becomes_a_store(msprobe, case, score):
    for mode in ("true", "false"):
        with tempfile.TemporaryDirectory(prefix="msprobe_golden_") as scratch:
            run(msprobe, ["csv2db", "--data", str(case.parent / "csv2tb/monitor_output"), "--db", scratch, "--micro_step", mode], score)
            wanted = sqlite3.connect(":memory:")
            wanted.executescript((case / ("micro_step_%s.sql" % mode)).read_text())
            wanted = stored(wanted)
            database = sqlite3.connect(str(Path(scratch) / "monitor_data.trend.db"))
            got = stored(database)
            database.close()
            for name, rows in wanted.items():
                score.count(got[name] == rows, "micro_step %s: %s differs" % (mode, name), len(rows))


def decoder_agrees(_, case, score):
    """Holds the decoder of this file against decoded.json; the writer is tried in tests/unit/monitor and with PyTorch."""
    wanted = [(item["tag"], item["step"], item["value"]) for item in json.loads((case / "decoded.json").read_text()) if "tag" in item]
    for path in case.glob("output/*/events*"):
        score.count(read_events(path) == wanted, "events differ", len(wanted))


def is_not_of_files(_, case, score):
    """What print_struct and stack_info write is tried with PyTorch; their tables, if any, are none of ours."""
    score.count((case / "config.json").exists(), "no config.json")


CASES = {
    "alert_nan": alerts_are_read,
    "alert_turbulence": alerts_are_read,
    "anomaly_analyse": is_analysed,
    "cc_2rank": tables_become_events,
    "csv2db": becomes_a_store,
    "csv2tb": becomes_events,
    "csv_all_ops": is_replayed,
    "csv_backward_only": tables_become_events,
    "csv_default_ops": tables_become_events,
    "csv_edge_dtypes": is_replayed,
    "csv_edge_dtypes_nd12": is_replayed,
    "csv_forward_only": tables_become_events,
    "csv_id_op": tables_become_events,
    "csv_mbs_grad": tables_become_events,
    "csv_no_squash": tables_become_events,
    "csv_odd_io": is_replayed,
    "csv_stale_rows": tables_become_events,
    "csv_window": tables_become_events,
    "module_ranks_2rank": tables_become_events,
    "print_struct": is_not_of_files,
    "stack_info": is_not_of_files,
    "tensorboard": decoder_agrees,
}
NO_CASES = {"tools"}


def main():
    msprobe, folder = Path(sys.argv[1]).resolve(), golden_cases.cases_folder(sys.argv[2], "monitor")
    if not folder.is_dir():
        print("no folder %s: skipped" % folder)
        return golden_cases.SKIPPED
    names = sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name not in NO_CASES)
    good = bool(names)
    for name in names:
        score = golden_cases.Score()
        CASES.get(name, lambda *_: score.count(False, "CASES does not know it"))(msprobe, folder / name, score)
        score.show(name)
        good = good and score.is_full()
    print("golden monitor: %d cases, %s" % (len(names), "all agree" if good else "NOT all agree"))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
