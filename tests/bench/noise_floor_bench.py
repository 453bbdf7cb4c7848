"""How good recorded noise floors are (`msprobe dump --repeat`).

usage: noise_floor_bench.py false-alarms [--runs N] [--program build/bin/msprobe]
       noise_floor_bench.py digits [--repeats N] [--list]

false-alarms: benign runs of three small models, each compared with a reference whose calls were repeated. A benign run is the same
training step on "another machine": every operator that sums or rounds runs in one of three ways, by lot: over a permuted axis, in
double precision rounded once, or as it is, forward and backward. A verdict other than "agrees" or "drift" is a false alarm. As a
counterproof the same with a fault: one layer's result is too large by a thousandth.
digits: the estimated digits of 200 well- and ill-conditioned cases against the truth, which mpmath computes with 50 digits.

PYTHONPATH leads to msprobe.
"""
import argparse
import json
import math
import os
import random
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
sys.path += [os.path.join(TESTS, "python"), os.path.join(TESTS, "python", "torch")]

CONFIGURATIONS = [(net, dtype, seed) for net, dtypes in (("gpt", ("float32", "bfloat16")), ("cnn", ("float32",)),
                                                         ("moe", ("float32", "bfloat16"))) for dtype in dtypes for seed in range(5)]
REPEATS = 5


# ---- another machine ----

def other_machine(seed):
    """A mode under which operators run in one of three ways."""
    import torch
    from msprobe._intercept.runtime import own_work
    from torch.utils._python_dispatch import TorchDispatchMode
    lots = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    aten = torch.ops.aten
    products = {aten.mm.default: (0, 1), aten.bmm.default: (0, 1), aten.addmm.default: (1, 2), aten.baddbmm.default: (1, 2)}
    sums = {aten.sum.dim_IntList, aten.mean.dim}
    rounded = {aten.exp.default, aten.gelu.default, aten.gelu_backward.default, aten._softmax.default, aten._softmax_backward_data.default,
               aten._log_softmax.default, aten._log_softmax_backward_data.default, aten.native_layer_norm.default,
               aten.native_layer_norm_backward.default, aten.native_batch_norm.default, aten.native_batch_norm_backward.default,
               aten.convolution.default, aten.convolution_backward.default, aten.mean.default, aten.sum.default, aten.silu.default,
               aten.silu_backward.default, *products, *sums}
    halves = (torch.bfloat16, torch.float16)

    def wide(value):
        if isinstance(value, torch.Tensor) and value.is_floating_point():
            return value.float() if value.dtype in halves else value.double()
        return [wide(item) for item in value] if isinstance(value, (list, tuple)) else value

    def narrow(value, like):
        if isinstance(value, torch.Tensor):
            return value.to(like) if value.is_floating_point() else value
        return tuple(narrow(item, like) for item in value) if isinstance(value, (list, tuple)) else value

    class OtherMachine(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            with own_work():  # no call of the model
                return self.run(function, args, kwargs or {})

        @staticmethod
        def run(function, args, kwargs):
            way = lots.randrange(3)
            if way == 1 and function in products:
                left, right = products[function]
                order = torch.randperm(args[left].shape[-1], generator=generator)
                args = list(args)
                args[left] = args[left].index_select(args[left].dim() - 1, order)
                args[right] = args[right].index_select(args[right].dim() - 2, order)
            elif way == 1 and function in sums and isinstance(args[1], (list, tuple)):
                args = list(args)
                for axis in args[1]:
                    args[0] = args[0].index_select(axis, torch.randperm(args[0].shape[axis], generator=generator))
            elif way == 2 and function in rounded:
                dtype = next(value.dtype for value in args if isinstance(value, torch.Tensor) and value.is_floating_point())
                if not any(isinstance(value, torch.dtype) for value in args):
                    # Halves in float32: the dtype argument of a softmax's backward is another one then.
                    return narrow(function(*wide(args), **kwargs), dtype)
            return function(*args, **kwargs)

    return OtherMachine()


def train(net, dtype, seed, runs, folder, is_reference, faulty):
    import torch
    from isolate_script import SmallMoE
    from models import SmallCNN, TinyGPT
    from msprobe.pytorch import PrecisionDebugger
    torch.set_num_threads(1)
    torch.manual_seed(seed)
    model = {"gpt": lambda: TinyGPT(64, 32, 4, 2, 16), "cnn": SmallCNN, "moe": SmallMoE}[net]().to(getattr(torch, dtype))
    if net == "cnn":
        data, target = torch.randn(8, 3, 8, 8, dtype=getattr(torch, dtype)), torch.randint(10, (8,))
    else:
        data = torch.randint(32, (4, 16))
        target = data.roll(1).flatten()
    if faulty:
        layers = [module for module in model.modules() if isinstance(module, torch.nn.Linear)]
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
        json.dump({"task": "statistics", "dump_path": folder, "rank": [], "step": [], "level": "mix",
                   "repeat": REPEATS if is_reference else 0, "extra_info": True}, file)
    debugger = PrecisionDebugger(config_path=file.name)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    import contextlib
    for run in range(runs):
        model.load_state_dict(state)
        model.zero_grad()
        torch.manual_seed(seed + 1)
        if faulty:
            for layer in layers:
                layer.__dict__.pop("forward", None)
            layer = layers[run % len(layers)]
            layer.forward = lambda x, plain=layer.forward: plain(x) * (1.001 if dtype == "float32" else 1.1)
        with contextlib.nullcontext() if is_reference else other_machine(seed * 1000 + run):
            debugger.start(model=model)
            result = model(data)
            loss = torch.nn.functional.cross_entropy(result.reshape(-1, result.shape[-1]).float(), target)
            loss.backward()
            debugger.stop()
            debugger.step()
    os.unlink(file.name)


def verdict_of(program, run, reference, folder):
    done = subprocess.run([program, "compare", run, reference, "-o", os.path.join(folder, "result"), "--force", "--json"],
                          capture_output=True, text=True)
    answer = json.loads(done.stdout)
    return answer["verdict"]["word"], done.stdout


def without_floors(path):
    with open(path) as file:
        dump = json.load(file)
    for entry in dump["data"].values():
        entry.pop("noise_floor", None)
    plain = os.path.join(os.path.dirname(path), "plain")
    os.makedirs(plain, exist_ok=True)
    with open(os.path.join(plain, "dump.json"), "w") as file:
        json.dump(dump, file)
    return os.path.join(plain, "dump.json")


def false_alarms(arguments):
    each = max(1, arguments.runs // len(CONFIGURATIONS))
    table = {}
    for net, dtype, seed in CONFIGURATIONS:
        if arguments.only and net != arguments.only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            for kind, runs in (("reference", 1), ("benign", each), ("faulty", max(1, each // 5))):
                subprocess.run([sys.executable, __file__, "train", net, dtype, str(seed), str(runs), os.path.join(folder, kind), kind],
                               check=True, stderr=subprocess.DEVNULL)
            reference = os.path.join(folder, "reference", "step0", "rank", "dump.json")
            plain = without_floors(reference)
            for kind, runs in (("benign", each), ("faulty", max(1, each // 5))):
                for run in range(runs):
                    path = os.path.join(folder, kind, "step%d" % run, "rank", "dump.json")
                    for floors, other in (("recorded", reference), ("dtype", plain)):
                        word, text = verdict_of(arguments.program, path, other, folder)
                        counts = table.setdefault((net, dtype, kind, floors), {})
                        counts[word] = counts.get(word, 0) + 1
                        if arguments.verbose and floors == "recorded" and (kind == "benign") == (word == "DIFFERENT"):
                            found = json.loads(text)
                            print(net, dtype, seed, run, word, json.dumps(found.get("sections", found))[:1500])
    print("| model | dtype | runs | floor | verdicts |")
    print("|---|---|---|---|---|")
    for (net, dtype, kind, floors), counts in sorted(table.items()):
        print("| %s | %s | %d %s | %s | %s |" % (net, dtype, sum(counts.values()), kind, floors, ", ".join(
            "%d %s" % (count, word) for word, count in sorted(counts.items()))))
    for floors in ("recorded", "dtype"):
        for kind in ("benign", "faulty"):
            all_counts = [counts for (_, _, k, f), counts in table.items() if (k, f) == (kind, floors)]
            different = sum(counts.get("DIFFERENT", 0) for counts in all_counts)
            print("%s, %s floors: %d of %d DIFFERENT" % (kind, floors, different, sum(sum(c.values()) for c in all_counts)))


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    command = commands.add_parser("false-alarms")
    command.add_argument("--runs", type=int, default=1000)
    command.add_argument("--program", default=os.path.join(os.path.dirname(TESTS), "build", "bin", "msprobe"))
    command.add_argument("--only")
    command.add_argument("--verbose", action="store_true")
    command = commands.add_parser("train")
    for name in ("net", "dtype", "seed", "runs", "folder", "kind"):
        command.add_argument(name)
    command = commands.add_parser("digits")
    command.add_argument("--repeats", type=int, default=REPEATS)
    command.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    if arguments.command == "train":
        train(arguments.net, arguments.dtype, int(arguments.seed), int(arguments.runs), arguments.folder,
              arguments.kind == "reference", arguments.kind == "faulty")
    elif arguments.command == "digits":
        from noise_floor_cases import judge
        judge(arguments.repeats, arguments.list)
    else:
        false_alarms(arguments)


if __name__ == "__main__":
    main()
