"""What the benchmarks of tasks of PrecisionDebugger train, and how they measure it: the model of the published figures of the Python tool,
2 layers, width 128, 4 heads, 64 tokens, batch 4, 512 words, SGD; 29 parameters of 0.54 million elements; one thread, a process per figure.
"""
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
WORDS = 512
TOKENS = 64


def make(dtype="float32"):
    """(model, its optimizer)"""
    import torch
    sys.path.insert(0, os.path.join(os.path.dirname(HERE), "python"))
    from models import TinyGPT
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = TinyGPT(WORDS, 128, 4, 2, TOKENS).to(getattr(torch, dtype))
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def batch():
    """Words, with one more than the model takes: each is to tell the next."""
    import torch
    return torch.randint(0, WORDS, (4, TOKENS + 1))


def free_benchmark_debugger(section):
    """A PrecisionDebugger of msprobe, or of the Python tool where that takes its place, with this section of the configuration."""
    import torch
    # Without one the Python tool writes no rows with PyTorch 2.
    torch.distributed.init_process_group("gloo", init_method="file://" + os.path.join(tempfile.mkdtemp(), "meet"), rank=0,
                                         world_size=1)
    from msprobe.pytorch import PrecisionDebugger
    with tempfile.NamedTemporaryFile("w", suffix=".json", delete=False) as file:
        json.dump({"task": "free_benchmark", "dump_path": tempfile.mkdtemp(), "rank": [], "step": [], "level": "L1",
                   "free_benchmark": section}, file)
    return PrecisionDebugger(file.name)


def seconds_of(*worker, place=None):
    """What the running script prints when it is called as a worker; NaN, and its last words, where that fails. `place`: its PYTHONPATH, if
    not that of this process."""
    # What a worker writes, some of it when it ends, goes when it has gone.
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, OMP_NUM_THREADS="1", TMPDIR=folder)
        if place is not None:
            environment["PYTHONPATH"] = place
        run = subprocess.run([sys.executable, os.path.abspath(sys.argv[0]), "--worker", *worker], env=environment, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, check=False)
    if run.returncode != 0:
        sys.stderr.write("%s failed:\n%s\n" % (" ".join(worker), run.stderr.decode()[-2000:]))
        return float("nan")
    return float(run.stdout.decode().split()[-1])
