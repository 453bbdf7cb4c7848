"""A case that was made: its folder and what case.json tells. Needs no PyTorch."""
import json
import os

VERSION = 5  # of what a seed stands for: a cache of another version is made anew


class Case:
    """A case in a folder: npu, clean (npu without the fault), bench, case.json."""

    def __init__(self, folder, told):
        self.folder, self.told = folder, told

    def side(self, name):
        return os.path.join(self.folder, name)

    def bench(self):
        return self.side("bench" if os.path.isdir(self.side("bench")) else "clean")


def roots(cache):
    """The folders of a cache, one for each PyTorch that made cases: "torch1.13"."""
    return sorted(os.path.join(cache, name) for name in os.listdir(cache) if name.startswith("torch"))


def load(root, seed, any_version=True):
    path = os.path.join(root, str(seed), "case.json")
    if not os.path.exists(path):
        return None
    with open(path) as file:
        told = json.load(file)
    return Case(os.path.dirname(path), told) if any_version or told["version"] == VERSION else None
