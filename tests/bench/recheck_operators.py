"""The sample inputs of PyTorch's own operator tests on a device, rechecked: how many calls of each operator are called wrong. All are false alarms, unless the
device is wrong.

usage: recheck_operators.py OUTPUT [--device cpu|cuda] [--samples N] [--processes N] [--dtypes NAME,...] [--operators NAME,...] [--tf32] [--program build/bin/msprobe]

The samples run under capture in several processes beside each other (tests/python/torch/recheck_samples.py), and their dumps, OUTPUT/part*, are rechecked. OUTPUT/alarms.tsv
has all that was called wrong, OUTPUT/counts.tsv the counts of every operator, and OUTPUT/raised.json what PyTorch refused. The exit code is 1 if there are false alarms
or a process failed.

PYTHONPATH leads to msprobe.
"""
import argparse
import collections
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

from recheck_devices import ALARM, HERE, recheck

SAMPLES = os.path.join(os.path.dirname(HERE), "python", "torch", "recheck_samples.py")
VERDICTS = ("within", "beyond", "not checkable")


def capture(given, part):
    """How the process of one part ended, what it said, and how long it took."""
    began = time.monotonic()
    flags = ["--device", given.device, "--samples", str(given.samples), "--dtypes", given.dtypes, "--operators", given.operators,
             "--part", f"{part}/{given.processes}", *(["--tf32"] if given.tf32 else [])]
    try:
        ended = subprocess.run([sys.executable, SAMPLES, dump_of(given, part), *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True,
                               timeout=given.timeout, env=dict(os.environ, OMP_NUM_THREADS="1"))
        return ended.returncode, ended.stdout, time.monotonic() - began
    except subprocess.TimeoutExpired as expired:
        return "a timeout", (expired.stdout or b"").decode(errors="replace"), time.monotonic() - began


def dump_of(given, part):
    return os.path.join(given.output, f"part{part}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--samples", type=int, default=4, help="of each operator and dtype")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--dtypes", default="float32,float64,bfloat16,float16")
    parser.add_argument("--operators", default="")
    parser.add_argument("--tf32", action="store_true")
    parser.add_argument("--timeout", type=float, default=600, help="seconds after which a process of samples is ended")
    parser.add_argument("--program", default="build/bin/msprobe")
    given = parser.parse_args()
    if os.path.exists(given.output):
        sys.exit(f"{given.output} exists: name a new folder")
    os.makedirs(given.output)
    began = time.monotonic()
    parts = range(given.processes)
    failed, raised, counts, alarms = [], {}, collections.defaultdict(collections.Counter), []
    less_exact, reasons, largest = collections.Counter(), collections.Counter(), 0.0
    with ThreadPoolExecutor(given.processes) as pool:
        for part, (code, said, seconds) in zip(parts, pool.map(lambda part: capture(given, part), parts)):
            print(f"part {part}: {seconds:.0f} s, {(said.splitlines() or ['nothing said'])[-1]}", flush=True)
            if code:
                failed.append(part)
                print(f"part {part} ended with {code}; the end of what it said:\n{said[-3000:]}", flush=True)
            elif os.path.exists(dump_of(given, part) + ".raised.json"):
                with open(dump_of(given, part) + ".raised.json", encoding="utf-8") as file:
                    raised.update(json.load(file))
        captured = time.monotonic()

        def rows_of(part):
            return recheck(given.program, dump_of(given, part), os.path.join(given.output, f"result{part}"), "--threads", "1")
        whole = [part for part in parts if part not in failed]
        for part, rows in zip(whole, pool.map(rows_of, whole)):
            for row in rows:
                operator = row["Operator"] or row["Call"].split(".")[1]
                counts[operator][row["Verdict"]] += 1
                if row["Verdict"] == "beyond":
                    alarms.append((f"part{part}", row))
                elif row["Verdict"] == "within":
                    largest = max(largest, float(row["Ratio"]))
                    if row["Reason"]:
                        counts[operator]["less exact"] += 1
                        less_exact[f"{operator}, {row['Reason']}"] += 1
                else:
                    reasons[row["Reason"]] += 1
    with open(os.path.join(given.output, "alarms.tsv"), "w", encoding="utf-8") as file:
        file.write("\t".join(("Part", *ALARM)) + "\n")
        file.writelines("\t".join((where, *(row[column] for column in ALARM))) + "\n" for where, row in alarms)
    with open(os.path.join(given.output, "counts.tsv"), "w", encoding="utf-8") as file:
        file.write("\t".join(("Operator", *VERDICTS, "less exact")) + "\n")
        file.writelines("\t".join((name, *(str(count[verdict]) for verdict in (*VERDICTS, "less exact")))) + "\n" for name, count in sorted(counts.items()))
    with open(os.path.join(given.output, "raised.json"), "w", encoding="utf-8") as file:
        json.dump(raised, file, indent=1)
    print(f"\nless exact than sums in float32: {dict(less_exact.most_common())}")
    print(f"not checkable: {dict(reasons.most_common(15))}")
    print(f"raised: {len(raised)} operators and dtypes, of them by CUDA: {[name for name, error in raised.items() if 'CUDA' in error][:20]}")
    print(f"captured in {captured - began:.0f} s, rechecked in {time.monotonic() - captured:.0f} s")
    totals = {verdict: sum(count[verdict] for count in counts.values()) for verdict in VERDICTS}
    print(f"{given.device}: {totals['within'] + totals['beyond']:,} calls recomputed, {totals['not checkable']:,} not checkable, largest error over bound {largest:.2f}, "
          f"{totals['beyond']} false alarms")
    if alarms:
        print("\nfalse alarms by operator: " + ", ".join(f"{name} {count['beyond']}" for name, count in sorted(counts.items()) if count["beyond"]))
        # Three of each operator; all are in the file.
        shown = collections.Counter()
        for where, row in alarms:
            shown[row["Operator"]] += 1
            if shown[row["Operator"]] <= 3:
                print("  ".join((where, *(row[column] for column in ALARM))))
    sys.exit(1 if alarms or failed or not totals["within"] else 0)


if __name__ == "__main__":
    main()
