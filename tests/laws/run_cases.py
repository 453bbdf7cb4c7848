"""Runs trainings of cases.py under all laws, one after the other in this process: run_cases.py [planted|benign] [NAME...]."""
import csv
import glob
import json
import os
import subprocess
import sys
import tempfile

import torch

SETTINGS = {}
MSPROBE = os.environ.get("MSPROBE", "msprobe")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)


def run(function, settings=None):
    """(rows of laws.csv, laws.json) of one training."""
    from msprobe.pytorch import TrainerMon

    SETTINGS.clear()
    SETTINGS.update(settings or {})
    with tempfile.TemporaryDirectory(prefix="msprobe_laws_") as folder:
        config = os.path.join(folder, "config.json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump(dict({"laws": "all"}, **(settings or {})), file)
        os.environ["MONITOR_OUTPUT_DIR"] = os.path.join(folder, "out")
        os.environ["LAWS_FOLDER"] = folder
        monitors = []

        def watch(model, optimizer, **kwargs):
            monitors.append(TrainerMon(config))
            monitors[-1].set_monitor(model, optimizer, **kwargs)

        torch.manual_seed(7)
        try:
            function(watch)
        finally:
            for monitor in monitors:
                monitor.close()
        rows, told = [], {}
        for path in sorted(glob.glob(os.path.join(folder, "out*", "*", "laws.csv"))):
            with open(path, encoding="utf-8", newline="") as file:
                rows += list(csv.DictReader(file))
        for path in glob.glob(os.path.join(folder, "out*", "*", "laws.json")):
            with open(path, encoding="utf-8") as file:
                one = json.load(file)
            for law, counts in told.get("laws", {}).items():  # a training that goes on in another folder
                for key in ("checked", "broken"):
                    if key in counts and law in one["laws"]:
                        one["laws"][law][key] = one["laws"][law].get(key, 0) + counts[key]
            told = one
        return rows, told


def _rank(rank, world, place, function, settings):
    """One process of a case of several."""
    import torch.distributed as dist

    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = os.environ.get("GLOO_SOCKET_IFNAME", "lo")
    dist.init_process_group("gloo", init_method="file://" + place, rank=rank, world_size=world)
    folder = os.path.dirname(place)
    monitors = []

    def watch(model, optimizer, **kwargs):
        from msprobe.pytorch import TrainerMon

        monitors.append(TrainerMon(os.path.join(folder, "config.json")))
        monitors[-1].set_monitor(model, optimizer, **kwargs)

    function(rank, world, watch)
    for monitor in monitors:
        monitor.close()
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # threads of gloo may outlive the interpreter otherwise


def run_ranks(function, world, settings=None):
    """(rows that `monitor analyse` knows, what it says) of one training of several processes."""
    with tempfile.TemporaryDirectory(prefix="msprobe_laws_") as folder:
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(dict({"laws": "all"}, **(settings or {})), file)
        os.environ["MONITOR_OUTPUT_DIR"] = os.path.join(folder, "out")
        context = torch.multiprocessing.get_context("fork")
        processes = [context.Process(target=_rank, args=(rank, world, os.path.join(folder, "store"), function, settings))
                     for rank in range(world)]
        for process in processes:
            process.start()
        for process in processes:
            process.join(120)
        said = subprocess.run([MSPROBE, "monitor", "analyse", os.path.join(folder, "out"), "--fail-on", "law"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        rows = []
        for path in sorted(glob.glob(os.path.join(folder, "out", "*", "laws.csv"))):
            with open(path, encoding="utf-8", newline="") as file:
                rows += list(csv.DictReader(file))
        rows.sort(key=lambda row: int(row["step"]))
        return rows, said.stdout.decode(), said.returncode, [process.exitcode for process in processes]


def ranks(names):
    """The cases of several processes; how many went wrong."""
    import rank_cases

    bad = 0
    for name, laws, part, step, world, function in rank_cases.PLANTED:
        if not names or name in names:
            rows, said, code, ended = run_ranks(function, world)
            law = next((row["law"] for row in rows if row["law"] in laws), laws[0])
            wrong = judge(name, law, part, step, rows) or (None if code == 1 and "LAW BROKEN" in said and not any(ended)
                                                           else "analyse: %d %s %s" % (code, ended, said))
            bad += wrong is not None
            print("%-60s %-16s %s" % (name, law, "ok" if wrong is None else wrong), flush=True)
            if names:
                print(said, json.dumps(rows, indent=1))
    for name, world, function in rank_cases.BENIGN:
        if not names or name in names:
            rows, said, code, ended = run_ranks(function, world)
            wrong = rows[:2] or (None if (code == 0 or "does not exist" in said) and not any(ended) else "analyse: %d %s %s" % (code, ended, said))
            bad += bool(wrong)
            print("%-60s %-16s %s" % (name, "none", wrong or "ok"), flush=True)
            if names:
                print(said)
    return bad


def judge(name, law, part, step, rows):
    """What is wrong with what was told of a planted fault, or None."""
    first = [row for row in rows if row["law"] == law]
    if not first:
        return "not found; told: %s" % [(row["step"], row["law"], row["name"]) for row in rows][:4]
    if part not in first[0]["name"]:
        return "names %s, not %s" % (first[0]["name"], part)
    if not step <= int(first[0]["step"]) <= step + 1:
        return "in step %s, not %d" % (first[0]["step"], step)
    earlier = [row for row in rows if int(row["step"]) < step]
    return "an alarm before the fault: %s" % earlier[0] if earlier else None


def main(arguments):
    import cases

    torch.set_num_threads(1)
    which = arguments[0] if arguments else "all"
    names = arguments[1:]
    bad = 0
    for name, law, part, step, function in cases.PLANTED if which in ("all", "planted") else ():
        if not names or name in names:
            rows, told = run(function, getattr(function, "settings", None))
            wrong = judge(name, law, part, step, rows)
            bad += wrong is not None
            print("%-60s %-16s %s" % (name, law, "ok" if wrong is None else wrong), flush=True)
            if names:
                print(json.dumps(rows, indent=1), json.dumps(told, indent=1))
    for name, function in cases.BENIGN if which in ("all", "benign") else ():
        if not names or name in names:
            rows, told = run(function, getattr(function, "settings", None))
            bad += bool(rows)
            print("%-60s %-16s %s" % (name, "none", "ok" if not rows else rows[:2]), flush=True)
            if names:
                print(json.dumps(told, indent=1))
    if which in ("all", "ranks"):
        bad += ranks(names)
    print("%d wrong" % bad)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
