"""A pair that was made: its folder and what pair.json tells. Needs no PyTorch."""
import json
import os

VERSION = 1  # of what a seed stands for: a cache of another version is made anew


class Pair:
    """A pair in a folder: npu, clean (npu without the fault), bench, pair.json."""

    def __init__(self, folder, told):
        self.folder, self.told = folder, told

    def side(self, name):
        return os.path.join(self.folder, name)


def load(root, seed, any_version=True):
    path = os.path.join(root, str(seed), "pair.json")
    if not os.path.exists(path):
        return None
    with open(path) as file:
        told = json.load(file)
    return Pair(os.path.dirname(path), told) if any_version or told["version"] == VERSION else None
