"""A server in small: requests join and leave the batch, every forward gives each of them a token, and one debugger, built from the path of
a configuration, is around the forward.

usage: server.py capture.json [SECONDS PER FORWARD]"""
import sys
import time

import torch
import torch.nn as nn

from msprobe.pytorch import PrecisionDebugger

ARRIVING = {0: [("req-a", 3, 6)], 1: [("req-b", 4, 2), ("req-c", 1, 3)]}  # forward: (name, tokens of the prompt, tokens of the answer)


class ModelRunner:
    def __init__(self, config_path):
        torch.manual_seed(1)
        self.model = nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 32), nn.GELU(), nn.Linear(32, 16)).eval()
        self.debugger = PrecisionDebugger(config_path=config_path)

    @torch.inference_mode()
    def execute_model(self, tokens, scheduled):
        self.debugger.start(model=self.model, scheduled_tokens=scheduled)
        try:
            return self.model(torch.tensor(tokens)).argmax(-1).tolist()
        finally:
            self.debugger.stop()
            self.debugger.step()


def serve(runner, seconds):
    running, forward = {}, 0
    while running or forward < 2:
        running.update({name: ([1] * prompt, answer) for name, prompt, answer in ARRIVING.get(forward, ())})
        scheduled = {name: len(tokens) for name, (tokens, _) in running.items()}
        chosen, end = runner.execute_model([token for tokens, _ in running.values() for token in tokens], scheduled), 0
        for name, (tokens, left) in list(running.items()):
            end += len(tokens)
            running[name] = ([chosen[end - 1]], left - 1)
            if left == 1:
                del running[name]
        print("forward %d: %s" % (forward, " ".join("%s:%d" % item for item in scheduled.items())), flush=True)
        forward += 1
        time.sleep(seconds)


serve(ModelRunner(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0)
