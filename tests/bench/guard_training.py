"""A short training on one thread for guard.py: `guard_training.py without|statistics|L0 FOLDER`. Its steps are those of the tiny model
of capture_bench.py. Prints the CPU seconds of all steps but the first two."""
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python"))
import torch
import torch.nn.functional as functional
from models import TinyGPT

MODE, FOLDER = sys.argv[1:]
STEPS, UNCOUNTED, VOCABULARY = 60, 2, 32

torch.set_num_threads(1)
torch.manual_seed(1)
debugger = None
if MODE != "without":
    from msprobe.pytorch import PrecisionDebugger
    config = os.path.join(FOLDER, "config.json")
    with open(config, "w", encoding="utf-8") as file:
        json.dump({"task": "statistics", "level": "L0" if MODE == "L0" else "mix", "dump_path": os.path.join(FOLDER, "dump"),
                   "rank": [], "step": [], "statistics": {}}, file)
    debugger = PrecisionDebugger(config_path=config)
model = TinyGPT(vocab=VOCABULARY, h=16, n=2, layers=2, seq=8)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
begin = 0.0
for step in range(UNCOUNTED + STEPS):
    if step == UNCOUNTED:
        begin = time.process_time()
    ids = torch.randint(0, VOCABULARY, (2, 8))
    if debugger:
        debugger.start(model=model)
    loss = functional.cross_entropy(model(ids).view(-1, VOCABULARY), ids.view(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if debugger:
        debugger.stop()
        debugger.step()
print(time.process_time() - begin)
