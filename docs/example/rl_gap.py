"""Two runs of a reinforcement learning whose engine keeps the likeliest 90 % of the tokens in steps 2 and 3.

usage: rl_gap.py FOLDER    writes FOLDER/engine and FOLDER/trainer as SingleSave does
"""
import math
import os
import random
import struct
import sys


def save(folder, key, step, rows, kind):
    path = os.path.join(folder, "data", key, "step%d" % step, "rank0")
    os.makedirs(path, exist_ok=True)
    header = "{'descr': '<%s', 'fortran_order': False, 'shape': (%d, %d), }" % ("f4" if kind == "f" else "i4", len(rows), len(rows[0]))
    header += " " * (63 - (len(header) + 10) % 64) + "\n"
    with open(os.path.join(path, key + ".npy"), "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        file.write(b"".join(struct.pack("<%d%s" % (len(row), kind), *row) for row in rows))


random.seed(1)
for step in range(5):
    engine, trainer, ids = [], [], []
    for _ in range(8):
        engine.append([]), trainer.append([]), ids.append([])
        for _ in range(40):
            logits = [random.gauss(0, 2) for _ in range(50)]
            exact = [math.exp(z) for z in logits]
            rounded = [math.exp(z + random.gauss(0, 0.01)) for z in logits]  # other kernels
            kept, mass = range(50), sum(rounded)
            if step in (2, 3):
                kept, mass, whole = [], 0.0, sum(rounded)
                for token in sorted(range(50), key=lambda token: -rounded[token]):
                    if mass < 0.9 * whole:
                        kept.append(token)
                        mass += rounded[token]
            token = random.choices(list(kept), [rounded[token] for token in kept])[0]
            ids[-1].append(token)
            engine[-1].append(math.log(rounded[token] / mass))
            trainer[-1].append(math.log(exact[token] / sum(exact)))
    for side, logs in (("engine", engine), ("trainer", trainer)):
        folder = os.path.join(sys.argv[1], side)
        save(folder, "log_probs", step, logs, "f")
        save(folder, "responses", step, ids, "i")
