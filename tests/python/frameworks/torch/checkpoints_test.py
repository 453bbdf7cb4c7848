"""Checkpoints that torch.distributed.checkpoint writes, two processes together, through ckpt_compare."""
import os
import socket
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
import harness  # noqa: E402
import torch  # noqa: E402

try:
    import safetensors.torch
except ImportError:
    safetensors = None

VERSION = tuple(int(part) for part in torch.__version__.split(".")[:2])

# usage: writer.py HOW FOLDER [PARAMETER]: trains a step and saves it; adds 1 to one element of a parameter first. Beside the
# checkpoint, whole.pt holds what rank 0 gathers.
WRITER = """
import os, sys
import torch, torch.distributed as dist, torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, get_model_state_dict, StateDictOptions
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
sys.path.insert(0, %r)
from harmless_models import Gpt

how, folder, *changed = sys.argv[1:]
dist.init_process_group("gloo")
torch.manual_seed(11)
model = Gpt()
model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
for name, parameter in model.named_parameters():
    if name in changed:
        with torch.no_grad():
            parameter.view(-1)[3] += 1
if how == "tensor parallel":
    mesh = init_device_mesh("cpu", (2,))
    for block in model.blocks:
        parallelize_module(block, mesh, {"mlp.0": ColwiseParallel(), "mlp.2": RowwiseParallel()})
else:
    for block in model.blocks:
        fully_shard(block)
    fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=False)
# Ids are the same on both ranks: gradients, and so weights, do not depend on how the model is cut.
torch.nn.functional.cross_entropy(model.eval()(torch.arange(12).view(2, 6)).view(-1, 24), torch.arange(12)).backward()
optimizer.step()
whole = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))
if dist.get_rank() == 0:
    torch.save(whole, folder + ".pt")
of_model, of_optimizer = get_state_dict(model, optimizer)
if how == "asynchronous":
    dcp.async_save({"model": of_model, "optimizer": of_optimizer}, checkpoint_id=folder).result()
elif how.startswith("hugging face"):
    writer = dcp.HuggingFaceStorageWriter(folder, fqn_to_index_mapping={name: 1 + index %% 2 for index, name in enumerate(of_model)},
                                          save_distributed=True,
                                          enable_consolidation=how.endswith("consolidated"))
    dcp.save(of_model, storage_writer=writer)
else:
    dcp.save({"model": of_model, "optimizer": of_optimizer, "epoch": 3}, checkpoint_id=folder)
dist.destroy_process_group()
""" % os.path.join(HERE, "..", "..", "torch")


@unittest.skipUnless(VERSION >= (2, 6), "FSDP2 is of PyTorch 2.6")
class Checkpoints(harness.FrameworkCase):
    framework = "torch"
    quick = False

    def write(self, how, *changed):
        """The folder of the checkpoint."""
        folder = self.folder()
        path, script = os.path.join(folder, "checkpoint"), os.path.join(folder, "writer.py")
        with open(script, "w", encoding="utf-8") as file:
            file.write(WRITER)
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        run = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_addr",
                              "127.0.0.1", "--master_port", str(port), script, how, path, *changed],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True, timeout=300,
                             env=dict(os.environ, OMP_NUM_THREADS="1"))
        self.assertEqual(run.returncode, 0, run.stdout[-3000:])
        return path

    def compare(self, first, second, *flags):
        run = subprocess.run([harness.MSPROBE, "ckpt_compare", first, second, "-o", os.path.join(self.folder(), "out.json"),
                              "--fail-on", "different", "--fail-on", "missing", "--fail-on", "error", *flags],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        return run.returncode, run.stdout

    def check(self, how, subject, *flags):
        with self.checking("works", subject):
            path = self.write(how)
            code, output = self.compare(path, path + ".pt")
            self.assertEqual(code, 0, output)
            name = "blocks.1.mlp.2.weight"
            other = self.write(how, name)
            code, output = self.compare(path, other, *flags)
            self.assertEqual(code, 1, output)
            self.assertIn(name, output)

    def test_of_fsdp2_with_the_optimizer(self):
        self.check("fsdp2", "distributed checkpoint of FSDP2, ckpt_compare", "--optimizer")

    def test_of_tensor_parallel(self):
        self.check("tensor parallel", "distributed checkpoint of DTensor, ckpt_compare")

    def test_written_asynchronously(self):
        self.check("asynchronous", "distributed checkpoint, async_save, ckpt_compare")

    @unittest.skipIf(safetensors is None or VERSION < (2, 9), "PyTorch writes such folders from 2.9 on, with safetensors")
    def test_hugging_face_folders(self):
        for how in ("hugging face, consolidated", "hugging face, distributed"):
            self.check(how, "distributed checkpoint, %s, ckpt_compare" % how)


if __name__ == "__main__":
    unittest.main(verbosity=2)
