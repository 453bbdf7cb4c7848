#!/usr/bin/env python3
"""Memory snapshots as torch.cuda.memory._dump_snapshot() pickles them: a dict of segments with their blocks and of the last events
per device. Made from the structure that PyTorch's page "Understanding CUDA Memory Usage" and its memory_viz describe, without a GPU.

  snapshots.py OUT.pickle [--events N] [--stacks N] [--seed N]      a large one, for measurements
"""
import argparse
import pickle
import random

ALIGN = 512
SEGMENT = 20 << 20


def frames(*places):
    """The innermost first: "model.py:12 forward"."""
    made = []
    for place in places:
        where, name = place.split(" ", 1)
        file, line = where.rsplit(":", 1)
        made.append({"filename": file, "line": int(line), "name": name})
    return made


class Allocator:
    """Blocks side by side in segments; freed ones stay as holes. The record holds every event."""

    def __init__(self, device=0, history=True):
        self.device, self.history = device, history
        self.segments, self.trace, self.time = [], [], 1_700_000_000_000_000

    def event(self, action, address, size, stack):
        self.time += 37
        if self.history:
            self.trace.append({"action": action, "addr": address, "size": size, "stream": 0, "time_us": self.time, "frames": stack})

    def allocate(self, size, stack):
        rounded = (size + ALIGN - 1) // ALIGN * ALIGN
        segment = next((s for s in self.segments if s["total_size"] - s["used"] >= rounded), None)
        if segment is None:
            total = max(SEGMENT, rounded)
            segment = {"total_size": total, "used": 0, "address": 0x7F0000000000 + len(self.segments) * (1 << 32), "blocks": []}
            self.segments.append(segment)
            self.event("segment_alloc", segment["address"], total, stack)
        block = {"address": segment["address"] + segment["used"], "size": rounded, "requested_size": size, "state": "active_allocated",
                 "frames": stack}
        segment["used"] += rounded
        segment["blocks"].append(block)
        self.event("alloc", block["address"], rounded, stack)
        return block

    def free(self, block, stack=()):
        for action in ("free_requested", "free_completed"):
            self.event(action, block["address"], block["size"], list(stack))
        block["state"], block["frames"] = "inactive", []

    def described(self):
        made = []
        for segment in self.segments:
            blocks = [dict(block) for block in segment["blocks"]]
            rest = segment["total_size"] - segment["used"]
            if rest:
                blocks.append({"address": segment["address"] + segment["used"], "size": rest, "requested_size": 0, "state": "inactive",
                               "frames": []})
            live = sum(block["size"] for block in blocks if block["state"] != "inactive")
            made.append({"device": self.device, "address": segment["address"], "total_size": segment["total_size"], "stream": 0,
                         "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False, "allocated_size": live,
                         "active_size": live, "requested_size": live, "frames": [], "blocks": blocks})
        return made


def snapshot(*allocators):
    return {"segments": [segment for allocator in allocators for segment in allocator.described()],
            "device_traces": [allocator.trace for allocator in allocators], "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": ""},
            "external_annotations": []}


def write(path, made, protocol=4):
    with open(path, "wb") as file:
        pickle.dump(made, file, protocol=protocol)


def large(events, stacks, seed):
    random.seed(seed)
    names = [frames(f"/home/u/train/block{i % 97}.py:{i} forward", f"/home/u/train/model.py:{i % 11} forward", "/home/u/train/main.py:9 step")
             for i in range(stacks)]
    allocator, live = Allocator(), []
    for _ in range(events // 2):
        if live and random.random() < 0.45:
            allocator.free(live.pop(random.randrange(len(live))))
        else:
            live.append(allocator.allocate(random.randrange(1, 1 << 16), random.choice(names)))
    return snapshot(allocator)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--stacks", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    write(arguments.out, large(arguments.events, arguments.stacks, arguments.seed))


if __name__ == "__main__":
    main()
