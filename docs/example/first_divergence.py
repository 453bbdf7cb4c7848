"""Prints the first divergence that `msprobe compare` found: first_divergence.py result/summary.json."""
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    summary = json.load(file)
index = summary["first_divergence_pair"]
if index is None:
    print("no origin:", summary["verdict"])
else:
    first = summary["pairs"][index]["first_divergence"]
    for key in ("kind", "call", "layer", "code", "confidence"):
        print("%s: %s" % (key, first[key]))
