"""Faults of code generation, planted into the generated C++ of one kernel.

A kernel's text is changed by one of KINDS before it is compiled; the module that calls it stays as it is. The kernel as it was
generated is compiled as well and runs on copies of the same buffers: what the changed one leaves otherwise is the truth about the fault.
It counts where an output moves by more than VISIBLE of its size, and so that rounding cannot explain it.
"""
import collections
import os
import random
import re
import tempfile
import time

import torch

from msprobe.pytorch.compile_check.repro import copied

VISIBLE = 1e-3


def _replaced(pattern, change):
    def kind(text, generator):
        found = list(re.finditer(pattern, text))
        if not found:
            return None
        match = generator.choice(found)
        new = change(match)
        return None if new is None or new == match.group(0) else text[:match.start()] + new + text[match.end():]
    return kind


def _constant(match):
    value = float(match.group(1))
    return None if value == 0 else "static_cast<float>(%r)" % (value * 1.1)


KINDS = {
    "constant": _replaced(r"static_cast<float>\((-?\d+\.\d+(?:e-?\d+)?)\)", _constant),
    "eps": _replaced(r"static_cast<float>\((\d(?:\.\d+)?e-\d+)\)", lambda match: "static_cast<float>(0.5)"),
    "initial value": _replaced(r"(float tmp_acc\d+ = )0;", lambda match: match.group(1) + "3;"),
    "initial extreme": _replaced(r"-std::numeric_limits<float>::infinity\(\)", lambda match: "1.5f"),
    "tail": _replaced(r"x0<static_cast<int64_t>\((\d+)L\)", lambda match: "x0<static_cast<int64_t>(%dL)" % (int(match.group(1)) - 1)
                      if int(match.group(1)) > 1 else None),
    "index": _replaced(r"(in_ptr\d+\[static_cast<int64_t>\()(x\d)\)", lambda match: "%s%s/2)" % match.group(1, 2)),
    "stride": _replaced(r"(\d+)L\*(x\d)", lambda match: "%dL*%s" % (max(int(match.group(1)) - 1, 1), match.group(2))
                        if int(match.group(1)) > 1 else None),
    "sign": _replaced(r"(tmp\d+) - (tmp\d+);", lambda match: "%s + %s;" % match.group(1, 2)),
    "operation": _replaced(r"(tmp\d+) \* (tmp\d+);", lambda match: "%s + %s;" % match.group(1, 2)),
    "quotient": _replaced(r"(tmp\d+) / (tmp\d+);", lambda match: "%s * %s;" % match.group(1, 2)),
    "mask": _replaced(r"(tmp\d+) (<|>|<=|>=|==) (tmp\d+)", lambda match: "%s %s %s" % (
        match.group(1), {"<": ">", ">": "<", "<=": ">", ">=": "<", "==": "!="}[match.group(2)], match.group(3))),
    "function": _replaced(r"\.(exp|tanh|rsqrt|erf|log|sqrt)\(\)", lambda match: ".%s()" % {
        "exp": "exp2", "tanh": "sin", "rsqrt": "sqrt", "erf": "tanh", "log": "log2", "sqrt": "rsqrt"}[match.group(1)]),
    "lost sum": _replaced(r"(tmp_acc\d+(?:_vec)?) = tmp_acc\d+(?:_vec)? \+ (tmp\d+);", lambda match: "%s = %s;" % match.group(1, 2)),
}


class Planter:
    """Stands between generated modules and the compiler. With `target` (number of a kernel in the run), that kernel is changed."""

    def __init__(self):
        self.seen = []  # texts
        self.target = None
        self.text = None
        self.moved = {}  # position of an argument: relative size of the change
        self._places = []
        from torch._inductor.async_compile import AsyncCompile
        self._owner = AsyncCompile
        self._inner = AsyncCompile.cpp_pybinding

    def __enter__(self):
        planter, inner = self, self._inner

        def cpp_pybinding(compiler, types, text, *rest):
            number = len(planter.seen)
            planter.seen.append(text)
            if number != planter.target:
                return inner(compiler, types, text, *rest)
            right = inner(compiler, types, text, *rest)
            wrong = inner(compiler, types, planter.text, *rest)
            return _Both(right, wrong, planter)

        self._owner.cpp_pybinding = cpp_pybinding
        return self

    def __exit__(self, *error):
        self._owner.cpp_pybinding = self._inner


class _Both:
    """Runs the wrong kernel, and the right one on copies."""

    def __init__(self, right, wrong, planter):
        self._right = right
        self._wrong = wrong
        self._planter = planter

    def result(self):  # where kernels are compiled by other processes, they are asked for when all are
        self._right = self._right.result() if hasattr(self._right, "result") else self._right
        self._wrong = self._wrong.result() if hasattr(self._wrong, "result") else self._wrong
        return self

    def __call__(self, *args):
        with torch._C._DisableTorchDispatch():  # these operators are not the wrapper's
            self._run(*args)

    def _run(self, *args):
        self.result()
        copies = copied(list(args))
        self._right(*copies)
        self._wrong(*args)
        for index, (one, other) in enumerate(zip(args, copies)):
            if isinstance(one, torch.Tensor) and one.numel():
                size = float(torch.linalg.vector_norm(other.double().nan_to_num(0, 0, 0)))
                change = float(torch.linalg.vector_norm((one.double() - other.double()).nan_to_num(1e30, 1e30, -1e30)))
                if change:
                    self._planter.moved[index] = max(self._planter.moved.get(index, 0.0), change / size if size else float("inf"))


def campaign(names, count, seed, check, seconds=None):
    """{"faults": .., "named": .., by kind}; prints each that was missed. Ends early after so many seconds."""
    end = None if seconds is None else time.monotonic() + seconds
    torch._inductor.config.fx_graph_cache = False
    torch._inductor.config.compile_threads = 1
    generator = random.Random(seed)
    texts, places = {}, {}
    total, named, placed, by_kind = 0, 0, 0, collections.defaultdict(lambda: [0, 0])
    while total < count and (end is None or time.monotonic() < end):
        name = generator.choice(names)
        with Planter() as planter, tempfile.TemporaryDirectory() as folder:
            if name not in texts:
                check(name, os.path.join(folder, "first"))  # what is compiled first may be fused otherwise than ever after
                planter.seen = []
                places[name] = {_key(row): (row["module"], row["code"]) for row in check(name, folder)}
                texts[name] = planter.seen
                planter.seen = []
            if not texts[name]:
                names = [other for other in names if other != name]
                continue
            planter.target = generator.randrange(len(texts[name]))
            kind = generator.choice(list(KINDS))
            planter.text = KINDS[kind](texts[name][planter.target], generator)
            if planter.text is None:
                continue
            try:
                rows = check(name, os.path.join(folder, "faulty"))
            except Exception as error:  # does not compile, or the script does not stand it
                print("    %s %s: %s" % (name, kind, str(error).split("\n")[0][:80]))
                continue
        if max(planter.moved.values(), default=0.0) < VISIBLE:
            continue
        wrong = [row for row in rows if row["verdict"] == "wrong"]
        first = next((row for row in wrong if row["kernel"] != "graph"), None)
        kernel = _kernel_name(planter)
        right = first is not None and first["kernel"] == kernel
        at_its_place = right and places[name].get(_key(first)) == (first["module"], first["code"])
        total += 1
        named += right
        placed += at_its_place
        if right and not at_its_place:
            print("PLACE %s %s %s: %s in place of %s" % (name, kind, _key(first), (first["module"], first["code"]), places[name].get(_key(first))))
        by_kind[kind][0] += 1
        by_kind[kind][1] += right
        if not right:
            print("MISSED %s %s kernel %s moved %s: first wrong %s" % (name, kind, kernel, dict(planter.moved), first and (first["kernel"], first["output"])))
            for row in rows:
                if row["kernel"] == kernel:
                    print("      %(verdict)s %(output)s %(nodes).60s %(error)s %(bound)s %(reason).90s" % row)
        if total % 20 == 0:
            print("%d faults, %d named, %d with module and line" % (total, named, placed), flush=True)
    return {"faults": total, "named": named, "placed": placed, "kinds": {kind: tuple(counts) for kind, counts in by_kind.items()}}


def _key(row):
    return row["graph"], row["kernel"], row["output"]


def _kernel_name(planter):
    """As the generated module that holds the changed kernel calls it."""
    from torch._inductor.codecache import PyCodeCache
    modules = PyCodeCache.modules.values() if isinstance(PyCodeCache.modules, dict) else PyCodeCache.modules
    for module in modules:
        for name, value in vars(module).items():
            if isinstance(value, _Both) and value._planter is planter:
                return name
    return None
