"""Whether `msprobe recheck` calls correct implementations wrong: small nets trained on everything that computes differently on one host.

usage: recheck_devices.py [--blas NAME=FOLDER ...] [--torch NAME=PYTHON ...] [--program build/bin/msprobe]
       recheck_devices.py --device cuda [--torch NAME=PYTHON] [--settings TEXT,...] [--alarms FILE]

The nets of recheck_nets.py train under capture, optimizer included. On the CPU: a convolutional net (SGD), a GPT (AdamW) and a BERT-like encoder with masks (Adam)
for two steps with each of the Pythons given, each BLAS library (a folder with its libblas.so.3, for a PyTorch that links it dynamically as Debian's does),
each set of vector instructions (ATEN_CPU_CAPABILITY) and one and two threads. On a GPU: these and two more for one step with each setting of it: TF32 off and on,
cuBLAS and cuBLASLt, with and without cuDNN and its benchmark, bfloat16 and float16 alone and by autocast, sums reduced in them or not, and every kernel of
scaled_dot_product_attention. All of these are correct and round differently: every call that recheck calls wrong is a false alarm. `bits` counts how many different
sets of parameters came out. Settings that a PyTorch or a device does not have are listed.

PYTHONPATH leads to msprobe.
"""
import argparse
import collections
import csv
import glob
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.abspath(__file__))
NETS = os.path.join(HERE, "recheck_nets.py")
CAPABILITIES = ("default", "avx2", "avx512")
ALARM = ("Call", "Ratio", "Tensor", "Element", "Captured", "Exact", "Bound", "Beyond", "Elements")


def train(python, folder, *flags, environment=None):
    """What recheck_nets.py tells."""
    ended = subprocess.run([python, NETS, folder, *flags], env=dict(os.environ, **(environment or {})), stdout=subprocess.PIPE, check=False, text=True)
    if ended.returncode:
        sys.exit(f"{python} {NETS} {' '.join(flags)} ended with {ended.returncode}; what it said stands above\n{ended.stdout}")
    return json.loads(ended.stdout.splitlines()[-1])


def recheck(program, dump, result, *flags):
    """The rows of a recheck."""
    ended = subprocess.run([program, "recheck", dump, "-o", result, "-q", *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, text=True)
    tables = glob.glob(os.path.join(result, "*.csv"))
    if ended.returncode or not tables:
        sys.exit(f"{program} recheck {dump} ended with {ended.returncode}:\n{ended.stdout}")
    rows = []
    for table in tables:
        with open(table, encoding="utf-8-sig", newline="") as lines:
            rows += csv.DictReader(lines)
    return rows


class Totals:
    def __init__(self):
        self.verdicts, self.reasons, self.digests = collections.Counter(), collections.Counter(), set()
        self.largest, self.alarms = 0.0, []

    def add(self, where, rows):
        for row in rows:
            self.verdicts[row["Verdict"]] += 1
            if row["Verdict"] == "beyond":
                self.alarms.append((where, row))
            elif row["Verdict"] == "within":
                self.largest = max(self.largest, float(row["Ratio"]))
                if row["Reason"]:
                    self.reasons[row["Reason"]] += 1

    def print(self, name, settings):
        less = "; ".join(f"{count} {reason}" for reason, count in sorted(self.reasons.items()))
        print(f"| {name} | {settings} | {len(self.digests)} | {self.verdicts['within'] + self.verdicts['beyond']:,} | {self.verdicts['not checkable']:,} | "
              f"{less} | {self.largest:.2f} | {self.verdicts['beyond']} |", flush=True)


def measure_cpu(python, blas, program):
    """All settings of one PyTorch and one BLAS, and its version."""
    totals = Totals()
    for capability in CAPABILITIES:
        for threads in ("1", "2"):
            environment = {"ATEN_CPU_CAPABILITY": capability, "OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads, "BLIS_NUM_THREADS": threads}
            if blas:
                environment["LD_LIBRARY_PATH"] = blas
            with tempfile.TemporaryDirectory() as folder:
                told = train(python, folder, environment=environment)
                if blas and not any(path.startswith(os.path.realpath(blas.split(":")[0])) for path in told["blas"]):
                    sys.exit(f"{python} did not load the library of {blas}: {told['blas']}")
                totals.digests.add(told["digest"])
                totals.add(f"{capability}, {threads} threads", recheck(program, os.path.join(folder, "dump"), os.path.join(folder, "result")))
    return totals, told["torch"]


def measure_device(python, device, settings, program):
    """Prints a row for each setting of a device; the alarms."""
    alarms = []
    with tempfile.TemporaryDirectory() as folder:
        told = train(python, folder, "--device", device, "--settings", settings)
        steps = [step for setting in told["settings"].values() for step in setting["steps"]]

        def rows_of(step):
            return recheck(program, os.path.join(folder, "dump", f"step{step}"), os.path.join(folder, f"result{step}"), "--threads", "1")
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            rows = dict(zip(steps, pool.map(rows_of, steps)))
    for name, setting in told["settings"].items():
        totals = Totals()
        totals.digests.add(setting["digest"])
        for step in setting["steps"]:
            totals.add(f"{name}, step {step}", rows[step])
        totals.print(name, 1)
        alarms += totals.alarms
    print(f"\n{told['device']}, PyTorch {told['torch']}: {len(told['settings'])} settings, "
          f"{len({setting['digest'] for setting in told['settings'].values()})} different sets of parameters")
    for name, problem in told["missing"].items():
        print(f"not there: {name}: {problem}")
    return alarms


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blas", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--torch", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--device", default="cpu", help="cpu, or the device of PyTorch whose settings are all tried: cuda")
    parser.add_argument("--settings", default="", metavar="TEXT,...", help="only settings of the device whose names contain one of these")
    parser.add_argument("--alarms", metavar="FILE", help="a table of the false alarms")
    parser.add_argument("--program", default="build/bin/msprobe")
    given = parser.parse_args()
    rows = [(f"Debian's PyTorch, {name}", "/usr/bin/python3", folder) for name, folder in (word.split("=", 1) for word in given.blas)]
    rows += [(name, python, "") for name, python in (word.split("=", 1) for word in given.torch)]
    is_device = given.device != "cpu" or given.settings
    if is_device:
        rows = rows or [("", sys.executable, "")]
    elif not rows:
        parser.error("nothing to compute with: name a --blas, a --torch or a --device")
    print("| implementation | settings | bits | calls recomputed | not checkable | less exact than sums in float32 | largest error over bound | false alarms |\n"
          "|---|---|---|---|---|---|---|---|", flush=True)
    found = []
    for name, python, blas in rows:
        if is_device:
            found += measure_device(python, given.device, given.settings, given.program)
        else:
            totals, version = measure_cpu(python, blas, given.program)
            totals.print(f"{name} ({version})", 2 * len(CAPABILITIES))
            found += totals.alarms
    lines = ["\t".join((where, *(row[column] for column in ALARM))) for where, row in found]
    if given.alarms:
        with open(given.alarms, "w", encoding="utf-8") as file:
            file.write("\n".join(["\t".join(("Setting", *ALARM)), *lines]) + "\n")
    if found:
        sys.exit("false alarms:\n" + "\n".join(lines))


if __name__ == "__main__":
    main()
