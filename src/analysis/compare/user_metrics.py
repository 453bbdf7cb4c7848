"""Runs the files of `compare --algorithms` over a batch of pairs of tensors: started by user_metrics.cpp with

    ask|compare FOLDER BATCH ANSWERS FILE...

The answers are a line of JSON for each pair, or one object when only asked for names. The folder that it is started in is not searched for modules."""
import sys
sys.path[:] = [path for path in sys.path if path]
import importlib.util, inspect, json, os
what, folder, batch, answers = sys.argv[1:5]
def load(name):
    spec = importlib.util.spec_from_file_location(name[:-3], os.path.join(folder, name))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not callable(getattr(module, "compare", None)):
        raise ValueError("has no function compare(a, b)")
    required = [p for p in inspect.signature(module.compare).parameters.values()
                if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    if len(required) != 2 or any(p.kind == p.KEYWORD_ONLY for p in required):
        raise ValueError("compare takes %d arguments without default, not 2" % len(required))
    if not callable(getattr(module, "column_name", None)):
        raise ValueError("has no function column_name()")
    column = module.column_name()
    if not isinstance(column, str) or not column.strip():
        raise ValueError("column_name() gives %r, not the name of a column" % (column,))
    return module.compare, column
columns, functions = [], []
for name in sys.argv[5:]:
    try:
        function, column = load(name)
    except BaseException as error:
        with open(answers, "w") as file:
            json.dump({"file": name, "error": "%s: %s" % (type(error).__name__, error)}, file)
        sys.exit(0)
    columns.append(column)
    functions.append(function)
if what == "ask":
    with open(answers, "w") as file:
        json.dump({"columns": columns}, file)
    sys.exit(0)
import numpy, torch
def tensor(source, description):
    array = numpy.frombuffer(source.read(description["bytes"]), dtype=description["dtype"])
    return array.reshape(description["shape"]).copy()
def cell(value):
    if isinstance(value, bool):
        raise TypeError("compare() gives a bool, not a number or a text")
    if isinstance(value, int):
        return {"i": value} if -2**63 <= value < 2**63 else {"t": str(value)}
    if isinstance(value, float):
        return {"n": float(value)}
    if isinstance(value, str):
        return {"t": value}
    raise TypeError("compare() gives a %s, not a number or a text" % type(value).__name__)
with open(batch, "rb") as source, open(answers, "w") as out, torch.no_grad():
    for line in iter(source.readline, b""):
        head = json.loads(line)
        a, b = (tensor(source, head[side]) for side in "ab")
        if a.shape and a.dtype.kind in "fc" and b.dtype.kind in "fc":
            both = ~numpy.isfinite(a) & ~numpy.isfinite(b)
            a[both] = b[both] = 0
        cells = []
        for function in functions:
            try:
                cells.append(cell(function(torch.from_numpy(a.copy()), torch.from_numpy(b.copy()))))
            except Exception as error:
                cells.append({"e": "%s: %s" % (type(error).__name__, str(error)[:300])})
        out.write(json.dumps({"row": head["row"], "name": head["name"], "cells": cells}) + "\n")
        out.flush()
