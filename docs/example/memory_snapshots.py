"""Two memory snapshots as torch.cuda.memory._dump_snapshot() writes them, of a training whose memory grows. It needs neither PyTorch nor a
device: an allocator is played through, so that the files can be made anywhere.

  python3 memory_snapshots.py FOLDER      writes FOLDER/step_10.pickle and FOLDER/step_20.pickle

The training adds the loss itself to a sum, `total += loss` instead of `total += loss.item()`, and with it every step's graph is kept: the
input that the last layer saved for its backward is never freed.
"""
import os
import pickle
import sys

SEGMENT, ALIGN = 20 << 20, 512


def stack(*lines):
    """Frames, the innermost first."""
    made = []
    for line in lines:
        place, name = line.split(" ")
        file, number = place.split(":")
        made.append({"filename": file, "line": int(number), "name": name})
    return made


STEP = "/home/me/train.py:18 main"
WEIGHTS = stack("/home/me/model.py:9 __init__", "/home/me/train.py:8 main")
HIDDEN = stack("/usr/lib/torch/nn/functional.py:1500 relu", "/home/me/model.py:21 forward", STEP)
INPUT = stack("/usr/lib/torch/nn/modules/linear.py:125 forward", "/home/me/model.py:22 forward", STEP)
MOMENTS = stack("/usr/lib/torch/optim/adamw.py:150 _init_group", "/home/me/train.py:21 main")


class Allocator:
    """Blocks in segments; a free block is taken again by the first request that fits, and the rest of it stays free."""

    def __init__(self):
        self.segments, self.events = [], []

    def event(self, action, address, size, frames):
        self.events.append({"action": action, "addr": address, "size": size, "stream": 0, "time_us": 1000 + 50 * len(self.events), "frames": frames})

    def allocate(self, size, frames):
        size = -(-size // ALIGN) * ALIGN
        while True:
            for segment in self.segments:
                for place, block in enumerate(segment["blocks"]):
                    if block["state"] == "inactive" and block["size"] >= size:
                        rest = dict(block, address=block["address"] + size, size=block["size"] - size)
                        block.update(size=size, state="active_allocated", frames=frames)
                        segment["blocks"][place + 1:place + 1] = [rest] if rest["size"] else []
                        self.event("alloc", block["address"], size, frames)
                        return block
            total, address = max(SEGMENT, size), (0x7F00 + len(self.segments)) << 32
            self.segments.append({"device": 0, "address": address, "total_size": total, "stream": 0, "segment_type": "large",
                                  "blocks": [{"address": address, "size": total, "state": "inactive", "frames": []}]})
            self.event("segment_alloc", address, total, frames)

    def free(self, block):
        for action in ("free_requested", "free_completed"):
            self.event(action, block["address"], block["size"], [])
        block.update(state="inactive", frames=[])

    def dump(self, path):
        with open(path, "wb") as file:
            pickle.dump({"segments": self.segments, "device_traces": [self.events]}, file, protocol=4)


def main(folder):
    os.makedirs(folder, exist_ok=True)
    memory, moments = Allocator(), None
    for _ in range(6):
        memory.allocate(4 << 20, WEIGHTS)
    for step in range(1, 21):
        hidden = [memory.allocate(3 << 20, HIDDEN) for _ in range(4)]
        memory.allocate(1 << 20, INPUT)  # never freed: the sum of the losses holds the graph
        moments = moments or [memory.allocate(4 << 20, MOMENTS) for _ in range(12)]
        for block in hidden:
            memory.free(block)
        if step in (10, 20):
            memory.dump(os.path.join(folder, "step_%d.pickle" % step))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "snapshots")
