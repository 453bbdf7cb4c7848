"""Asks everything that a program may ask of the functions that a capture observes, while it observes them or without it, and prints the
answers: identity, hashes, pickles, signatures and sources, the functions that __torch_function__ is given, the operators that a dispatch
mode sees, inference, stored and sent models, what is left of models that are dropped.

usage: harmless_questions.py CONFIG|none NAMES_FILE
"""
import copy
import functools
import gc
import hashlib
import inspect
import io
import json
import multiprocessing
import pickle
import re
import sys
import typing
import warnings
import weakref

import torch
import torch.distributed
import torch.nn.functional
from torch.utils._python_dispatch import TorchDispatchMode

from harmless_models import MODELS

HOLDERS = {"functional": torch.nn.functional, "tensor": torch.Tensor, "torch": torch, "_VF": torch._VF,
           "distributed": torch.distributed}
BESIDE = [(torch.nn.Module, "__call__"), (torch.jit, "script"), (torch.nn.utils, "clip_grad_norm_"), (torch.nn.utils, "clip_grad_value_"),
          (torch.autograd.profiler, "record_function"), (torch.optim.SGD, "step"), (torch, "compile")]


def found(file):
    """{name: (holder, attribute, function)} of all that this PyTorch has."""
    with open(file) as names:
        lists = json.load(names)["pytorch"]
    every = {}
    for category, top in HOLDERS.items():
        for dotted in lists[category]:
            holder, attribute = top, dotted
            *path, attribute = dotted.split(".")
            for part in path:
                holder = getattr(holder, part, None)
            if callable(getattr(holder, attribute, None)):
                every[category + "." + dotted] = (holder, attribute, getattr(holder, attribute))
    for holder, attribute in BESIDE:
        if hasattr(holder, attribute):
            every["%s.%s" % (holder.__name__, attribute)] = (holder, attribute, getattr(holder, attribute))
    return every


def digest(value):
    return hashlib.sha1(addressless(value).encode()).hexdigest()[:12]


def addressless(value):
    return re.sub(r"0x[0-9a-f]+", "", str(value))


def tried(question, *values):
    try:
        return question(*values)
    except Exception as error:
        return type(error).__name__


def wrapped(function):
    @functools.wraps(function)
    def around(*args):
        return function(*args)

    return around.__name__, around.__doc__ == function.__doc__, around.__wrapped__ is function


def answers(holder, attribute, kept, hash_before):
    now = getattr(holder, attribute)
    return [now is kept, now == kept, kept == now, now in [kept], now in {kept}, {kept: 3}.get(now), hash(now) == hash_before,
            attribute in vars(holder), type(now).__name__,
            repr(now) == repr(kept), *(digest(getattr(now, name, None)) for name in ("__name__", "__qualname__", "__module__", "__doc__")),
            tried(lambda: addressless(inspect.signature(now))), digest(tried(inspect.getsource, now)), tried(wrapped, now),
            inspect.isfunction(now), inspect.isbuiltin(now), inspect.ismethoddescriptor(now), inspect.isroutine(now),
            digest(sorted(tried(dir, now))), tried(lambda: digest(sorted(map(str, vars(now))))),
            tried(lambda: pickle.loads(pickle.dumps(now)) is kept), tried(lambda: copy.deepcopy(now) is kept),
            tried(lambda: digest(str(typing.get_type_hints(now)))), tried(lambda: now.__code__ is kept.__code__),
            tried(lambda: digest((now.__code__.co_code, now.__code__.co_names))), tried(lambda: addressless(now.__defaults__)),
            tried(lambda: hasattr(now, "__wrapped__"))]


# ---- which functions a subclass of tensors is given ----

class Told(torch.Tensor):
    names, table, seen = {}, set(), []

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.seen.append([name for name, (_, _, kept) in cls.names.items() if function is kept] if function in cls.table else None)
        return super().__torch_function__(function, types, args, kwargs or {})


def branches(every):
    """Whether a subclass is given the very function that was called: what else it is given to read its attributes is not of interest."""
    Told.names, Told.table = every, {kept for _, _, kept in every.values()}
    for name, (holder, attribute, _) in every.items():
        # The strides of a tensor are read by the capture, too, and its class is asked.
        if name.split(".")[0] not in HOLDERS or holder is torch.distributed or name == "tensor.stride":
            continue
        given = []
        for arguments in ((), (1,), (torch.ones(2, 2),)):
            torch.manual_seed(0)
            Told.seen = []
            tensor = torch.ones(2, 2).as_subclass(Told)
            tried(lambda: getattr(holder, attribute)(tensor, *arguments))
            given.append(any(name in names for names in Told.seen if names))
        yield (name, "is given", *given)


class Seen(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def trained_under_a_mode(start, stop):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.norm = torch.nn.Linear(4, 4), torch.nn.LayerNorm(4)
            self.attention, self.rnn = torch.nn.MultiheadAttention(4, 2), torch.nn.LSTM(4, 4)

        def forward(self, x):
            x = self.norm(self.linear(x))[None]
            x = self.attention(x, x, x)[0] + self.rnn(x)[0]
            return torch.nn.functional.dropout(x.bfloat16().float().t() if x.dim() == 2 else x)

    torch.manual_seed(1)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters())
    with Seen() as mode:
        start(model)
        for _ in range(2):
            model(torch.ones(3, 4)).sum().backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        with torch.no_grad():
            model(torch.ones(3, 4))
        stop()
    return mode.names


def count(model, functions, queue):
    queue.put((len(list(model.parameters())), sum(map(callable, functions))))


def sent(model, functions):
    context = multiprocessing.get_context("spawn")
    queue = context.SimpleQueue()
    process = context.Process(target=count, args=(model, functions, queue))
    process.start()
    process.join(120)
    return process.exitcode, queue.get() if process.exitcode == 0 else None


def inferred(start, stop):
    for name, make in MODELS.items():
        torch.manual_seed(3)
        model, batch, loss_of = make()
        model.eval()
        inputs = batch(torch.Generator().manual_seed(5))
        start(model)
        for context in (torch.no_grad, torch.inference_mode):
            with context():
                yield name, context.__name__, tried(lambda: loss_of(model, inputs).item().hex())
        stop()
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, 2).eval()
    padding = torch.tensor([[False] * 5, [False, False, False, True, True]])
    start(model)
    with torch.no_grad():
        yield "padded", digest(model(torch.ones(2, 5, 8), src_key_padding_mask=padding).tolist())
    stop()


def dropped(start, stop):
    """What is left of models that a program has dropped: memory, and groups of processes that have to end before it does."""
    def trained(models, stops):
        optimizer = torch.optim.SGD([parameter for model in models for parameter in model.parameters()], lr=0.1)
        start(models if len(models) > 1 else models[0])
        for model in models:
            model(torch.ones(3, 4)).sum().backward()
        optimizer.step()
        if stops:
            stop()
        return [weakref.ref(item) for model in models for item in (*model.modules(), *model.parameters(), optimizer)]

    for count, stops in ((1, True), (2, True), (1, False)):
        left = trained([torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)) for _ in range(count)], stops)
        gc.collect()
        yield count, stops, len(left), sum(reference() is not None for reference in left)
        start(None)
        stop()


def main():
    configuration, names = sys.argv[1:]
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    every = found(names)
    hashes = {name: hash(kept) for name, (_, _, kept) in every.items()}
    model = torch.nn.Transformer(8, 2, 1, 1, 16)
    if configuration == "none":
        def start(model):
            pass

        stop = functools.partial(start, None)
    else:
        from msprobe.pytorch import PrecisionDebugger
        debugger = PrecisionDebugger(configuration)
        with open(configuration) as file:
            is_grad_probe = json.load(file)["task"] == "grad_probe"

        def start(model):
            if isinstance(model, torch.nn.Module) and is_grad_probe:
                debugger.monitor(model)
            debugger.start(model=model)

        def stop():
            debugger.stop()
            debugger.step()

    def say(*what):
        print("answer", *what, flush=True)

    start(model)
    for name, (holder, attribute, kept) in every.items():
        say(name, *answers(holder, attribute, kept, hashes[name]))
    stored = io.BytesIO()
    say("torch.save", tried(torch.save, model, stored), len(stored.getvalue()) > 1000)
    say("pickle", tried(lambda: len(list(pickle.loads(pickle.dumps(model)).parameters()))))
    say("deepcopy", tried(lambda: copy.deepcopy(model).encoder.layers[0].activation is torch.nn.functional.relu))
    say("spawn", tried(sent, model, [kept for name, (_, _, kept) in every.items() if name.startswith("functional.")
                                      and tried(pickle.dumps, kept) != "PicklingError"]))
    say("activation", torch.nn.TransformerDecoderLayer(8, 2, 16).activation is torch.nn.functional.relu)
    stop()
    start(model)
    for row in branches(every):
        say(*row)
    stop()
    say("operators", trained_under_a_mode(start, stop))
    for row in inferred(start, stop):
        say(*row)
    for row in dropped(start, stop):
        say("dropped", *row)


if __name__ == "__main__":
    main()
