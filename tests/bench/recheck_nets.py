"""Small nets that recheck_devices.py trains under capture, and the settings of a GPU that compute differently.

usage: recheck_nets.py OUTPUT            the nets on the CPU, as the environment says
       recheck_nets.py OUTPUT --device cuda [--settings NAME,...]

On the CPU OUTPUT/dump holds two steps of each net. With --device every setting that is there gets a folder of its own in OUTPUT, all in one process. The last
line of the output is JSON.
"""
import argparse
import contextlib
import hashlib
import json
import os
import sys
import traceback

import torch
import torch.nn as nn
import torch.nn.functional as F

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "python"))
from models import SmallCNN, TinyGPT  # noqa: E402  pylint: disable=wrong-import-position


class Bert(nn.Module):
    """Post-norm encoder over padded sentences, pooled for a class."""

    def __init__(self, vocabulary=40, width=24, heads=4, length=10):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width, padding_idx=0)
        self.positions = nn.Embedding(length, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width, eps=1e-12) for _ in range(5))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.up = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(2))
        self.down = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(2))
        self.pool = nn.Linear(width, width)
        self.classes = nn.Linear(width, 3)
        self.heads = heads

    def forward(self, ids):
        rows, length = ids.shape
        x = self.norms[4](self.tokens(ids) + self.positions(torch.arange(length, device=ids.device)))
        mask = (1.0 - (ids != 0).to(x.dtype))[:, None, None, :] * -1e4
        for i in range(2):
            parts = self.qkv[i](x).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            query, key, value = parts.unbind(0)
            weights = F.softmax(query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5 + mask, dim=-1)
            context = (weights @ value).transpose(1, 2).reshape(rows, length, -1)
            x = self.norms[2 * i](x + self.out[i](context))
            x = self.norms[2 * i + 1](x + self.down[i](F.gelu(self.up[i](x))))
        return self.classes(torch.tanh(self.pool(x[:, 0])))


class FusedGPT(nn.Module):
    """Two blocks with scaled_dot_product_attention, of sizes for which a GPU takes its matrix units."""

    def __init__(self, vocabulary=64, width=128, heads=2, length=64):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.positions = nn.Parameter(torch.randn(length, width) * 0.1)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(5))
        self.qkv = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(2))
        self.out = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.up = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(2))
        self.down = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(2))
        self.heads = heads

    def forward(self, ids):
        rows, length = ids.shape
        x = self.tokens(ids) + self.positions[:length]
        for i in range(2):
            parts = self.qkv[i](self.norms[2 * i](x)).view(rows, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            query, key, value = parts.unbind(0)
            context = F.scaled_dot_product_attention(query, key, value, is_causal=True).transpose(1, 2).reshape(rows, length, -1)
            x = x + self.out[i](context)
            x = x + self.down[i](F.silu(self.up[i](self.norms[2 * i + 1](x))))
        return F.linear(self.norms[4](x), self.tokens.weight)


class Wide(nn.Module):
    """Convolutions and products with long sums: what libraries split, transform or reduce in another type."""

    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList([nn.Conv2d(8, 32, 5, padding=2), nn.Conv2d(32, 32, 3, padding=1, groups=2), nn.Conv2d(32, 64, 1, stride=2)])
        self.up = nn.ConvTranspose2d(64, 16, 2, stride=2)
        self.line = nn.Conv1d(16, 16, 3, padding=1)
        self.long = nn.Linear(16 * 256, 32)
        self.classes = nn.Linear(32, 10, bias=False)

    def forward(self, x):
        for conv in self.convs:
            x = F.relu(conv(x))
        x = self.line(self.up(x).flatten(2))
        x = torch.baddbmm(x, x, torch.matmul(x.transpose(1, 2), x), alpha=1e-3)
        x = torch.einsum("bij,bkj->bik", x, x).softmax(-1) @ x
        return self.classes(torch.tanh(self.long(x.flatten(1))))


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)


def adamw(model):
    return torch.optim.AdamW(model.parameters(), lr=0.01, foreach=False)


def adam(model):
    return torch.optim.Adam(model.parameters(), lr=0.01, foreach=False)


NETS = {"cnn": SmallCNN, "gpt": TinyGPT, "bert": Bert, "fused": FusedGPT, "wide": Wide}


def nets(device="cpu", dtype=torch.float32, wanted=("cnn", "gpt", "bert")):
    """(model, optimizer, loss) of each net. Numbers are drawn on the CPU: they are the same on every device."""
    models = {name: NETS[name]().to(device=device, dtype=dtype) for name in wanted}
    # Steps of Adam divide by roots that a 16-bit type has no numbers for.
    small = dtype in (torch.float16, torch.bfloat16)
    optimizers = {"gpt": adamw, "bert": adam, "fused": adamw}
    losses = {}
    if "cnn" in wanted:
        images, classes = torch.randn(4, 3, 8, 8).to(device, dtype), torch.randint(0, 10, (4,)).to(device)
        losses["cnn"] = lambda: F.nll_loss(models["cnn"](images), classes)
    if "gpt" in wanted:
        ids = torch.randint(0, 32, (2, 9)).to(device)
        losses["gpt"] = lambda: F.cross_entropy(models["gpt"](ids[:, :-1]).reshape(-1, 32), ids[:, 1:].reshape(-1))
    if "bert" in wanted:
        sentences = torch.randint(1, 40, (6, 10)).to(device)
        sentences[:3, 7:] = 0
        losses["bert"] = lambda: F.cross_entropy(models["bert"](sentences), torch.arange(6, device=device) % 3)
    if "fused" in wanted:
        words = torch.randint(0, 64, (2, 65)).to(device)
        losses["fused"] = lambda: F.cross_entropy(models["fused"](words[:, :-1]).reshape(-1, 64), words[:, 1:].reshape(-1))
    if "wide" in wanted:
        pictures, kinds = torch.randn(4, 8, 16, 16).to(device, dtype), torch.randint(0, 10, (4,)).to(device)
        losses["wide"] = lambda: F.cross_entropy(models["wide"](pictures), kinds)
    for name, model in models.items():
        yield model, (sgd if small else optimizers.get(name, sgd))(model), losses[name]


@contextlib.contextmanager
def switched(tf32=False, benchmark=False, cudnn=True, blas="cublas", reduced=True, kernel=None):
    """The switches of PyTorch that choose between a GPU's implementations, and as they were afterwards."""
    cuda, library = torch.backends.cuda, torch.backends.cudnn
    products = cuda.matmul
    before = (products.allow_tf32, library.allow_tf32, library.benchmark, library.enabled, products.allow_fp16_reduced_precision_reduction,
              products.allow_bf16_reduced_precision_reduction)
    products.allow_tf32 = library.allow_tf32 = tf32
    library.benchmark, library.enabled = benchmark, cudnn
    products.allow_fp16_reduced_precision_reduction = products.allow_bf16_reduced_precision_reduction = reduced
    cuda.preferred_blas_library(blas)
    try:
        if kernel is None:
            yield
        else:
            from torch.nn.attention import SDPBackend, sdpa_kernel
            with sdpa_kernel(getattr(SDPBackend, kernel)):
                yield
    finally:
        (products.allow_tf32, library.allow_tf32, library.benchmark, library.enabled, products.allow_fp16_reduced_precision_reduction,
         products.allow_bf16_reduced_precision_reduction) = before
        cuda.preferred_blas_library("cublas")


KERNELS = ("FLASH_ATTENTION", "EFFICIENT_ATTENTION", "CUDNN_ATTENTION", "MATH")
ALL = ("cnn", "gpt", "bert", "fused", "wide")
PRODUCTS = ("gpt", "bert", "fused", "wide")
CONVOLUTIONS = ("cnn", "wide")


def gpu_settings():
    """{name: (nets, their dtype, dtype of autocast or None, switches)}."""
    settings = {}
    for tf32 in (False, True):
        name = "TF32 on" if tf32 else "TF32 off"
        settings[name] = (ALL, torch.float32, None, {"tf32": tf32})
        settings[name + ", cublasLt"] = (PRODUCTS, torch.float32, None, {"tf32": tf32, "blas": "cublaslt"})
        settings[name + ", cudnn.benchmark"] = (CONVOLUTIONS, torch.float32, None, {"tf32": tf32, "benchmark": True})
        settings[name + ", without cuDNN"] = (CONVOLUTIONS, torch.float32, None, {"tf32": tf32, "cudnn": False})
        for kernel in ("EFFICIENT_ATTENTION", "MATH"):
            settings[f"{name}, {kernel}"] = (("fused",), torch.float32, None, {"tf32": tf32, "kernel": kernel})
    for dtype in (torch.bfloat16, torch.float16):
        name = str(dtype).split(".")[-1]
        settings["autocast " + name] = (ALL, torch.float32, dtype, {})
        settings[name] = (ALL, dtype, None, {})
        settings[name + ", cublasLt"] = (PRODUCTS, dtype, None, {"blas": "cublaslt"})
        settings[name + ", cudnn.benchmark"] = (CONVOLUTIONS, dtype, None, {"benchmark": True})
        settings[name + ", sums in float32"] = (PRODUCTS, dtype, None, {"reduced": False})
        for kernel in KERNELS:
            settings[f"{name}, {kernel}"] = (("fused",), dtype, None, {"kernel": kernel})
    return settings


class Recorder:
    """Trains nets under capture, into one dump: a capture has one debugger in a process."""

    def __init__(self, folder):
        from msprobe.pytorch import PrecisionDebugger
        os.makedirs(folder, exist_ok=True)
        config = os.path.join(folder, "config.json")
        with open(config, "w", encoding="utf-8") as file:
            json.dump({"task": "tensor", "dump_path": os.path.join(folder, "dump"), "level": "L1", "rank": [], "step": [], "tensor": {}}, file)
        self.debugger = PrecisionDebugger(config_path=config)
        self.step = 0

    def train(self, steps, around=contextlib.nullcontext, **which):
        """The steps of the dump that it took, and a digest of the parameters that came out."""
        torch.manual_seed(0)
        first, digest = self.step, hashlib.sha256()
        for model, optimizer, loss in nets(**which):
            for _ in range(steps):
                self.debugger.start()
                try:
                    with around():
                        value = loss()
                    value.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                finally:
                    self.debugger.stop()
                    self.debugger.step()
                    self.step += 1
            for parameter in model.parameters():
                digest.update(parameter.detach().float().cpu().numpy().tobytes())
        return {"steps": list(range(first, self.step)), "digest": digest.hexdigest()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("output")
    parser.add_argument("--device", default="", help="every setting of a GPU, on this device")
    parser.add_argument("--settings", default="", metavar="TEXT,...", help="only those whose names contain one of these")
    given = parser.parse_args()
    recorder = Recorder(given.output)
    if not given.device:
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
        told = recorder.train(2)
        with open("/proc/self/maps", encoding="utf-8") as maps:
            blas = {line.split()[-1] for line in maps if "libblas.so" in line}
        print(json.dumps({"torch": torch.__version__, "blas": sorted(blas), "digest": told["digest"]}))
        return
    told, missing = {}, {}
    wanted = given.settings.split(",")
    for name, (which, dtype, autocast, switches) in gpu_settings().items():
        if not any(text in name for text in wanted):
            continue

        def around(dtype=autocast):
            return torch.autocast(given.device, dtype=dtype) if dtype else contextlib.nullcontext()
        try:
            with switched(**switches):
                told[name] = recorder.train(1, around, device=given.device, dtype=dtype, wanted=which)
        except Exception as error:  # a kernel that is not there for this device or dtype
            missing[name] = "".join(traceback.format_exception_only(type(error), error)).strip()
    name = torch.cuda.get_device_name() if given.device == "cuda" else given.device
    print(json.dumps({"torch": torch.__version__, "device": name, "settings": told, "missing": missing}))


if __name__ == "__main__":
    main()
