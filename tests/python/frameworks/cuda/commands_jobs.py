"""What the tests of commands do by the API, in a process of its own:   commands_jobs.py JOB [ARGUMENT...]

Everything lies on the device of MSPROBE_TEST_DEVICE. A job prints what it found, and ends with an error if that is not right.
"""
import contextlib
import csv
import glob
import json
import math
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

from commands_train import DEVICE, bits_of, generators, make_repeatable
from models import TinyGPT  # commands_train knows where it is

MODES = ("add_noise", "bit_noise", "change_value", "no_change", "improve_precision", "to_cpu")
JOBS = {}


def job(function):
    JOBS[function.__name__] = function
    return function


def check(holds, *told):
    if not holds:
        raise AssertionError("\n".join(map(str, told)))


@contextlib.contextmanager
def noted(failures):
    """What is not right in this block is told at the end, beside the rest."""
    try:
        yield
    except Exception as error:
        failures.append("%s: %s" % (type(error).__name__, error))


# ---- a training with everything that a second run could disturb ----

class Net(nn.Module):
    """In-place calls, views, out=, random numbers of the device and of the host, running statistics."""

    def __init__(self):
        super().__init__()
        self.embedding, self.norm = nn.Embedding(32, 16), nn.BatchNorm1d(16)
        self.first, self.second, self.after = nn.Linear(16, 64), nn.Linear(64, 16), nn.LayerNorm(16)

    def forward(self, words):
        x = self.norm(self.embedding(words).flatten(0, 1))
        x = F.dropout(F.gelu(self.first(x)), 0.3, self.training)
        x = F.relu_(self.second(x)).view(-1, 8, 16)
        scores = torch.softmax(x @ x.transpose(1, 2) / 4, -1)
        x = self.after(torch.matmul(scores, x) + torch.rand(16, device=x.device) + torch.rand(()).to(x.device))
        buffer = torch.zeros(x.shape, device=x.device)
        torch.mul(x.detach().float(), 2, out=buffer)
        buffer[0].add_(1).clamp_(min=0)
        return x + buffer * 0.1


def train(debugger=None, steps=2, dtype=None, block=contextlib.nullcontext):
    """[(what, bits)] of a run. `debugger`: one with start, stop and step; `block`: makes what surrounds forward and backward."""
    torch.manual_seed(5)
    net = Net().to(DEVICE)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
    seen = []
    for step in range(steps):
        words = torch.randint(0, 32, (4, 8)).to(DEVICE)
        if debugger:
            debugger.start()
        with block():
            cast = torch.autocast(DEVICE.split(":")[0], dtype=dtype) if dtype else contextlib.nullcontext()
            with cast:
                loss = F.cross_entropy(net(words).flatten(0, 1), words.flatten() % 16)
            loss.backward()
        if debugger:
            debugger.stop()
        seen += [("step %d: loss" % step, loss)] + [
            ("step %d: gradient of %s" % (step, name), parameter.grad) for name, parameter in net.named_parameters()]
        optimizer.step()
        optimizer.zero_grad()
        if debugger:
            debugger.step()
    seen += list(net.state_dict().items()) + [("generator %d" % i, state) for i, state in enumerate(generators())]
    return [(name, bits_of(tensor)) for name, tensor in seen]


def check_same(plain, seen, what):
    check(len(plain) == len(seen), what, "another number of tensors")
    different = [name for (name, left), (_, right) in zip(plain, seen) if left != right]
    check(not different, what + ": not the same bits:", different)


# ---- free_benchmark ----

def rows_of(pattern):
    found = []
    for path in sorted(glob.glob(pattern, recursive=True)):
        with open(path, encoding="utf-8-sig", newline="") as file:
            found += list(csv.DictReader(file))
    return found


def checker(folder, **section):
    """A debugger of the task free_benchmark; several may follow each other in a process."""
    from msprobe.pytorch import PrecisionDebugger
    PrecisionDebugger._instance = None
    os.makedirs(folder)
    path = os.path.join(folder, "config.json")
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"task": "free_benchmark", "level": "L1", "dump_path": folder, "free_benchmark": section}, file)
    return PrecisionDebugger(path)


def checked(folder, dtype=None, least=20, **section):
    """The rows of a training under it, which goes its way bit by bit."""
    section["fuzz_device"] = "cpu" if section["pert_mode"] == "to_cpu" else "npu"
    debugger = checker(folder, **section)
    seen = train(debugger, dtype=dtype)
    session = debugger._session
    session.close()
    rows = rows_of(folder + "/**/free_benchmark.csv")
    print(folder, session._checked, "checked,", len(rows), "rows, skipped:", session._attempts.skipped)
    check(session._checked >= least, folder, "too few calls were checked: %d" % session._checked, session._attempts.skipped)
    check("the second run failed" not in session._attempts.skipped, folder, session._attempts.skipped)
    return seen, rows


@job
def free_benchmark(stage):
    """Every mode, in float32 and under autocast."""
    failures = []
    for dtype in (None, torch.bfloat16):
        plain = train(dtype=dtype)
        check_same(plain, train(dtype=dtype), "two plain runs")
        for mode in MODES:
            if mode == "improve_precision" and dtype is None:
                continue  # there are no halves
            for more in ({}, {"all_inputs": True}, {"noise_ulps": 1}):
                if more and (mode not in ("add_noise", "bit_noise") or "noise_ulps" in more and mode != "add_noise"):
                    continue
                with noted(failures):
                    folder = "%s_%s_%s_%s" % (stage, mode, dtype, "_".join(more))
                    seen, rows = checked(folder, dtype, least=5 if mode == "improve_precision" or stage == "backward" else 20,
                                         pert_mode=mode, fuzz_stage=stage, **more)
                    check_same(plain, seen, folder)
                    check(mode != "no_change" or not rows, folder, "rows of calls that were only repeated:", rows)
                    check(mode != "change_value" or rows, folder, "no row")
                    if mode == "to_cpu":
                        check(dtype is not None or not rows, folder, "calls of the device that the CPU does not confirm:", rows)
    if stage == "forward":
        with noted(failures):
            plain = train()
            seen, _ = checked("preheat", pert_mode="bit_noise", if_preheat=True, preheat_step=2, least=10)
            check_same(plain, seen, "preheat")
    check(not failures, *failures)


@job
def unstable():
    """A call whose result hangs on the last bit of its input is a row, and another one is none; forward and backward."""
    for stage, name in (("forward", "Torch.tan.0.forward"), ("backward", "Torch.tan.0.backward")):
        debugger = checker("unstable_" + stage, pert_mode="bit_noise", fuzz_stage=stage)
        debugger.start()
        x = torch.full((64,), 1.5707963, device=DEVICE, requires_grad=True)
        (torch.tan(x) + torch.mul(x, 0.5)).sum().backward()
        debugger.stop()
        debugger.step()
        debugger._session.close()
        rows = rows_of("unstable_%s/**/free_benchmark.csv" % stage)
        check([row["api_name"] for row in rows] == [name], stage, rows)
    # The results of the second runs take the place of the first.
    seen, _ = checked("fix_wider", torch.bfloat16, least=5, pert_mode="improve_precision", handler_type="fix")
    check(len(seen) == len(train(dtype=torch.bfloat16)), "fix, improve_precision")
    debugger = checker("fix_cpu", pert_mode="to_cpu", fuzz_device="cpu", handler_type="fix", list=["exp"])
    debugger.start()
    x = torch.linspace(-3, 3, 1000, device=DEVICE)
    result = torch.exp(x)
    debugger.stop()
    debugger.step()
    debugger._session.close()
    check(result.device == x.device and torch.equal(result.cpu(), torch.exp(x.cpu())), "fix, to_cpu", result)


@job
def perturbations():
    """What is changed where a tensor lies follows the rules of the library, which changes those of the host."""
    from msprobe.pytorch.free_benchmark import perturbation
    from msprobe.pytorch import values as known
    from msprobe.pytorch.repeat import rounding
    known.configure()
    torch.manual_seed(1)
    wrong = []
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        limits = torch.finfo(dtype)
        values = torch.cat([torch.randn(3000) * 10.0 ** torch.randint(-9, 4, (3000,)),
                            torch.tensor([0.0, -0.0, math.inf, -math.inf, 1.0, -1.0])]).to(dtype)
        values = torch.cat([values, torch.tensor([limits.tiny, -limits.tiny, limits.tiny / 2, limits.max, limits.min], dtype=dtype)])
        kinds = {"all": values, "with NaN": torch.cat([values, torch.tensor([math.nan], dtype=dtype)]), "matrix": values[:3000].view(50, 60),
                 "transposed": values[:3000].view(50, 60).t(), "cube": values[:3000].view(5, 20, 30), "one": values[:1],
                 "small": values[:50] * 0 + limits.tiny * 4, "empty": values[:0].view(0, 3), "number": values[4]}
        for mode, ulps in (("add_noise", 0), ("add_noise", 1), ("add_noise", 3), ("bit_noise", 0), ("change_value", 0)):
            change = perturbation.Perturbation.__new__(perturbation.Perturbation)
            change._mode, change._ulps, change._all = mode, ulps, False
            for kind, tensor in kinds.items():
                expected = change.of_tensor(tensor)
                got = perturbation._on_device(tensor.to(DEVICE), mode, ulps)
                if (expected is None) != (got is None):
                    wrong.append((dtype, mode, ulps, kind, "changed on one side alone", expected is None, got is None))
                elif got is not None and bits_of(got) != bits_of(expected):
                    # float16 + 1e-6 is what PyTorch makes of it there.
                    places = (got.cpu() != expected) & ~(got.cpu().isnan() & expected.isnan())
                    apart = (got.cpu() - expected).abs() > 2 * limits.eps * expected.abs()
                    if mode != "add_noise" or ulps or bool((places & apart).any()):
                        wrong.append((dtype, mode, ulps, kind, int(places.sum()), got.cpu()[places][:5], expected[places][:5]))
        for kind, tensor in kinds.items():
            if tensor.numel() < 1000:
                continue
            moved = rounding._on_device(tensor.to(DEVICE), 7).cpu()
            same = moved == tensor
            bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()]
            apart = (moved.contiguous().view(bits).to(torch.int64) - tensor.contiguous().view(bits).to(torch.int64)).abs()
            may = (tensor.abs() > limits.tiny) & (tensor.abs() < limits.max)
            share = float(same[may].float().mean())
            if bool((apart[may] > 1).any()) or not bool((apart[~may] == 0).all()) or not 0.4 < share < 0.6:
                wrong.append((dtype, "stochastic rounding", kind, share))
    check(not wrong, *wrong)


# ---- online_dispatch ----

class Wrong(torch.utils._python_dispatch.TorchDispatchMode):
    """Every call of an operator is off by a factor."""

    def __init__(self, name):
        super().__init__()
        self.name = name

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result * 1.05 if function.__name__.split(".")[0] == self.name else result


@job
def online_dispatch(processes):
    from msprobe.pytorch import PtdbgDispatch
    os.makedirs("checked")

    def judged(tag, dtype=None, fault=None):
        check_of = PtdbgDispatch(dump_mode="auto", dump_path="checked", tag=tag, process_num=int(processes))

        @contextlib.contextmanager
        def block():
            with (Wrong(fault) if fault else contextlib.nullcontext()), check_of:
                yield

        seen = train(dtype=dtype, block=block)
        print(tag, check_of.checked, "checked,", check_of.recomputed, "without PyTorch, skipped:", dict(check_of._skipped))
        return seen, check_of

    failures = []
    for tag, dtype in (("float32", None), ("bfloat16", torch.bfloat16)):
        seen, check_of = judged(tag, dtype)
        rows = [row for row in rows_of(check_of.folder + "/accuracy_checking_details_*.csv") if row["Status"] != "True"]
        with noted(failures):
            check_same(train(dtype=dtype), seen, tag)
        with noted(failures):
            # The limit of bfloat16 is absolute, too: what is beyond 2 exceeds it by being rounded.
            check(check_of.checked > 60 and (dtype or check_of.passed), tag, check_of.checked, check_of.failed, dict(check_of._skipped), *rows)
        with noted(failures):
            check("the check failed" not in check_of._skipped, tag, dict(check_of._skipped))
    _, check_of = judged("wrong", fault="gelu")
    check(set(check_of.failed) == {"gelu"}, "the planted fault alone is called:", check_of.failed)
    check(glob.glob(check_of.folder + "/npu/gelu*.npy"), "no tensors of the call that was called:", os.listdir(check_of.folder + "/npu"))
    check(not failures, *failures)


# ---- what is recorded beside a training ----

def close(text, number, relative=2e-6, absolute=0.0):
    value = float(text)
    return (math.isnan(value) and math.isnan(number)) or value == number or (
        abs(value - number) <= relative * max(abs(number), 1e-12) + absolute)


def gpt_training(before=lambda model, optimizer: None, each=lambda model, optimizer: None, steps=2):
    """[(what, bits)]; `before` the first step, `each`: when gradients are there and when the optimizer has used them."""
    torch.manual_seed(3)
    model = TinyGPT(vocab=300, h=256, n=4, seq=8).to(DEVICE)  # matrices beyond 65536 elements
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    before(model, optimizer)
    seen = []
    for _ in range(steps):
        words = torch.randint(0, 300, (4, 8)).to(DEVICE)
        loss = F.cross_entropy(model(words).flatten(0, 1), words.flatten())
        optimizer.zero_grad()
        loss.backward()
        each(model, optimizer)
        seen += [("loss", loss.detach().clone())] + [(name, parameter.grad.clone()) for name, parameter in model.named_parameters()]
        optimizer.step()
        each(model, optimizer)
    seen += list(model.state_dict().items()) + [("generator %d" % i, state) for i, state in enumerate(generators())]
    return [(name, bits_of(tensor)) for name, tensor in seen]


@job
def grad_probe():
    from msprobe.pytorch import PrecisionDebugger
    plain = gpt_training()
    with open("config.json", "w", encoding="utf-8") as file:
        json.dump({"task": "grad_probe", "level": "L1", "dump_path": "probed", "grad_probe": {"grad_level": "L2", "bounds": [-0.01, 0, 0.01]}}, file)
    gradients, calls = [], []

    def note(model, _):
        calls.append(0)
        if len(calls) % 2:
            gradients.append({name: parameter.grad.cpu().double() for name, parameter in model.named_parameters()})

    seen = gpt_training(lambda model, _: PrecisionDebugger("config.json").monitor(model), note)
    check_same(plain, seen, "grad_probe")
    wrong, compared = [], 0
    for step, values in enumerate(gradients):
        rows = {row["param_name"]: row for row in rows_of("probed/rank0/grad_summary_%d.csv" % step)}
        check(set(rows) == set(values), step, set(rows) ^ set(values))
        for name, value in values.items():
            row = rows[name]
            for key, number in (("max", value.max()), ("min", value.min()), ("norm", value.norm())):
                compared += 1
                if not close(row[key], float(number)):
                    wrong.append((step, name, key, row[key], float(number)))
            [share] = [float(row[key]) for key in row if key == "=0"]
            if abs(share - float((value == 0).double().mean())) > 1e-6:
                wrong.append((step, name, "=0", share, float((value == 0).double().mean())))
    print("grad_probe:", compared, "numbers")
    check(compared > 100 and not wrong, compared, *wrong)


NUMBERS = {
    "norm": lambda x: x.norm(), "min": lambda x: x.min(), "max": lambda x: x.max(), "mean": lambda x: x.mean(),
    "zeros": lambda x: (x.abs() < 1e-8).double().mean(), "nans": lambda x: x.isnan().sum(), "std": lambda x: x.std(unbiased=False),
    "rms": lambda x: x.square().mean().sqrt(), "amax": lambda x: x.abs().max(), "infs": lambda x: x.isinf().sum()}


@job
def monitor():
    from msprobe.pytorch import TrainerMon
    plain = gpt_training()
    with open("config.json", "w", encoding="utf-8") as file:
        json.dump({"targets": {}, "xy_distribution": True, "wg_distribution": True, "mv_distribution": True, "param_distribution": True,
                   "mg_direction": True, "ops": list(NUMBERS), "step_interval": 1}, file)
    os.environ["MONITOR_OUTPUT_DIR"] = os.path.abspath("watched")
    expected, calls, activations = {}, [], {}

    def watch(model, optimizer):
        TrainerMon("config.json").set_monitor(model, optimizer)
        model.blocks[0].mlp.fc1.register_forward_hook(
            lambda module, args, output: activations.update({("actv", "blocks.0.mlp.fc1.output", len(calls) // 2): output.detach().cpu().double()}))

    def note(model, optimizer):
        step, behind = divmod(len(calls), 2)
        calls.append(0)
        for name, parameter in model.named_parameters():
            tables = {"param_updated": parameter}
            if not behind:  # moments are those that the step finds
                tables = {"grad_reduced": parameter.grad, "grad_unreduced": parameter.grad, "param_origin": parameter}
                tables.update((key, value) for key, value in optimizer.state[parameter].items() if key.startswith("exp_avg"))
            for table, tensor in tables.items():
                expected[table, name, step] = tensor.detach().cpu().double()

    check_same(plain, gpt_training(watch, note), "monitor")
    expected.update(activations)
    import atexit
    atexit._run_exitfuncs()  # as the end of the process does
    found = {}
    for path in glob.glob("watched/*/*.csv"):
        table = os.path.basename(path).rsplit("_", 1)[0]
        for row in rows_of(path):
            # Names begin with the stage of a pipeline, and end with what is measured there.
            name = row["name"].split(":")[-1].split("/")[0]
            found[table, name, int(row["step"])] = row
    wrong, compared = [], 0
    for key, value in expected.items():
        row = found.get(key)
        if row is None:
            wrong.append((key, "no row"))
            continue
        for op, number in NUMBERS.items():
            compared += 1
            if not close(row[op], float(number(value)), 1e-5, 6e-7):  # tables have six digits behind the point
                wrong.append((key, op, row[op], float(number(value))))
    print("monitor:", compared, "numbers, tables", sorted({table for table, _, _ in found}))
    check(compared > 1000 and not wrong, compared, sorted(found)[:20], *wrong)


@job
def config_check(path):
    from msprobe.core.config_check import ConfigChecker
    ConfigChecker.apply_patches("pytorch")
    torch.manual_seed(3)
    torch.rand(3)
    model = TinyGPT().half().to(DEVICE) if "half" in path else TinyGPT().to(DEVICE)
    ConfigChecker(model, output_zip_path=path, fmk="pytorch")
    inner = model.forward
    model.forward = lambda words, *more, **named: inner(words)
    for step in range(2):
        words = torch.randint(0, 32, (4, 8), generator=torch.Generator().manual_seed(step))
        values = torch.randn(300, 400, generator=torch.Generator().manual_seed(step))
        model(words.to(DEVICE), values.to(DEVICE), values.half().to(DEVICE).t(), mask=(values > 0).to(DEVICE),
              pair=[values.to(torch.complex64).to(DEVICE), values[:0].to(DEVICE), values[0, 0].to(DEVICE)])


if __name__ == "__main__":
    make_repeatable()
    JOBS[sys.argv[1]](*sys.argv[2:])
    print("finished", sys.argv[1])
