"""Whether `msprobe recheck` calls correct implementations wrong: small nets trained on everything that computes differently on one host.

usage: recheck_devices.py [--blas NAME=FOLDER ...] [--torch NAME=PYTHON ...] [--program build/bin/msprobe]

A convolutional net (SGD), a GPT (AdamW) and a BERT-like encoder with masks (Adam) train for two steps under capture, optimizer included, with each of the
Pythons given, each BLAS library (a folder with its libblas.so.3, for a PyTorch that links it dynamically as Debian's does), each set of vector
instructions (ATEN_CPU_CAPABILITY) and one and two threads. All of these are correct and round differently: every call that recheck calls wrong is a
false alarm. `bits` counts how many different sets of parameters came out.

PYTHONPATH leads to msprobe.
"""
import argparse
import csv
import glob
import hashlib
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(HERE), "python"))
CAPABILITIES = ("default", "avx2", "avx512")


def nets():
    """(model, optimizer, loss) of each net."""
    import torch
    import torch.nn as nn
    import torch.nn.functional as F
    from models import SmallCNN, TinyGPT

    class Bert(nn.Module):
        """Post-norm encoder over padded sentences, pooled for a class."""

        def __init__(self, vocabulary=40, width=24, heads=4, length=10):
            super().__init__()
            self.tokens = nn.Embedding(vocabulary, width, padding_idx=0)
            self.positions = nn.Embedding(length, width)
            self.norms = nn.ModuleList(nn.LayerNorm(width, eps=1e-12) for _ in range(5))
            self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(2))
            self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
            self.up = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(2))
            self.down = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(2))
            self.pool = nn.Linear(width, width)
            self.classes = nn.Linear(width, 3)
            self.heads = heads

        def forward(self, ids):
            rows, length = ids.shape
            x = self.norms[4](self.tokens(ids) + self.positions(torch.arange(length)))
            mask = (1.0 - (ids != 0).float())[:, None, None, :] * -1e4
            for i in range(2):
                parts = self.qkv[i](x).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
                query, key, value = parts.unbind(0)
                weights = F.softmax(query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5 + mask, dim=-1)
                context = (weights @ value).transpose(1, 2).reshape(rows, length, -1)
                x = self.norms[2 * i](x + self.out[i](context))
                x = self.norms[2 * i + 1](x + self.down[i](F.gelu(self.up[i](x))))
            return self.classes(torch.tanh(self.pool(x[:, 0])))

    cnn, gpt, bert = SmallCNN(), TinyGPT(), Bert()
    images, classes = torch.randn(4, 3, 8, 8), torch.randint(0, 10, (4,))
    ids, sentences = torch.randint(0, 32, (2, 9)), torch.randint(1, 40, (6, 10))
    sentences[:3, 7:] = 0
    yield cnn, torch.optim.SGD(cnn.parameters(), lr=0.1, momentum=0.9), lambda: F.nll_loss(cnn(images), classes)
    yield gpt, torch.optim.AdamW(gpt.parameters(), lr=0.01, foreach=False), \
        lambda: F.cross_entropy(gpt(ids[:, :-1]).reshape(-1, 32), ids[:, 1:].reshape(-1))
    yield bert, torch.optim.Adam(bert.parameters(), lr=0.01, foreach=False), \
        lambda: F.cross_entropy(bert(sentences), torch.arange(6) % 3)


def train(folder):
    """Prints what was computed with, and a digest of the parameters that came out."""
    import torch
    from msprobe.pytorch import PrecisionDebugger
    torch.manual_seed(0)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    digest = hashlib.sha256()
    config = os.path.join(folder, "config.json")
    with open(config, "w", encoding="utf-8") as file:
        json.dump({"task": "tensor", "dump_path": os.path.join(folder, "dump"), "level": "L1", "rank": [], "step": [], "tensor": {}}, file)
    debugger = PrecisionDebugger(config_path=config)
    for model, optimizer, loss in nets():
        for _ in range(2):
            debugger.start()
            loss().backward()
            optimizer.step()
            optimizer.zero_grad()
            debugger.stop()
            debugger.step()
        for parameter in model.parameters():
            digest.update(parameter.detach().numpy().tobytes())
    with open("/proc/self/maps", encoding="utf-8") as maps:
        blas = {line.split()[-1] for line in maps if "libblas.so" in line}
    print(json.dumps({"torch": torch.__version__, "blas": sorted(blas), "digest": digest.hexdigest()}))


def measure(python, blas, program, totals):
    """Adds all settings of one PyTorch and one BLAS to `totals`."""
    for capability in CAPABILITIES:
        for threads in ("1", "2"):
            environment = dict(os.environ, ATEN_CPU_CAPABILITY=capability, OMP_NUM_THREADS=threads, OPENBLAS_NUM_THREADS=threads,
                               BLIS_NUM_THREADS=threads)
            if blas:
                environment["LD_LIBRARY_PATH"] = blas
            with tempfile.TemporaryDirectory() as folder:
                ended = subprocess.run([python, os.path.abspath(__file__), "train", folder], env=environment, stdout=subprocess.PIPE, check=True,
                                       text=True)
                told = json.loads(ended.stdout.splitlines()[-1])
                if blas and not any(path.startswith(os.path.realpath(blas.split(":")[0])) for path in told["blas"]):
                    sys.exit(f"{python} did not load the library of {blas}: {told['blas']}")
                totals["torch"] = told["torch"]
                totals["digests"].add(told["digest"])
                subprocess.run([program, "recheck", os.path.join(folder, "dump"), "-o", os.path.join(folder, "result"), "-q"], check=True)
                [table] = glob.glob(os.path.join(folder, "result", "*.csv"))
                with open(table, encoding="utf-8-sig", newline="") as lines:
                    for row in csv.DictReader(lines):
                        totals[row["Verdict"]] += 1
                        if row["Verdict"] == "beyond":
                            totals["alarms"].append((capability, threads, row["Step"], row["Call"], row["Ratio"]))
                        elif row["Verdict"] == "within":
                            totals["ratio"] = max(totals["ratio"], float(row["Ratio"]))


def main():
    if sys.argv[1:2] == ["train"]:
        train(sys.argv[2])
        return
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blas", action="append", default=[], metavar="NAME=FOLDER")
    parser.add_argument("--torch", action="append", default=[], metavar="NAME=PYTHON")
    parser.add_argument("--program", default="build/bin/msprobe")
    given = parser.parse_args()
    rows = [(f"Debian's PyTorch, {name}", "/usr/bin/python3", folder) for name, folder in (word.split("=", 1) for word in given.blas)]
    rows += [(name, python, "") for name, python in (word.split("=", 1) for word in given.torch)]
    if not rows:
        parser.error("nothing to compute with: name a --blas or a --torch")
    print("| implementation | settings | bits | calls recomputed | not checkable | largest error over bound | false alarms |\n|---|---|---|---|---|---|---|")
    found = []
    for name, python, blas in rows:
        totals = {"within": 0, "beyond": 0, "not checkable": 0, "ratio": 0, "digests": set(), "alarms": []}
        measure(python, blas, given.program, totals)
        print(f"| {name} ({totals['torch']}) | {2 * len(CAPABILITIES)} | {len(totals['digests'])} | {totals['within'] + totals['beyond']:,} | "
              f"{totals['not checkable']:,} | {totals['ratio']:.2f} | {totals['beyond']} |", flush=True)
        found += totals["alarms"]
    if found:
        sys.exit(f"false alarms: {found}")


if __name__ == "__main__":
    main()
