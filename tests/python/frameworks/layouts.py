"""What the ranks of a run recorded of their layout, and the whole gradients that follow from it: put together of what each rank's
optimizer was given, by layout.json alone. Frameworks that share out one model in different ways must agree in them.
"""
import json
import os
import socket
import subprocess
import sys

import harness
import torch

HERE = os.path.dirname(os.path.abspath(__file__))


class Rank:
    """The first step of one rank."""

    def __init__(self, folder):
        self._folder = folder
        self.layout = self._load("layout.json")
        self.parameters = self.layout["parameters"]

    def _load(self, name):
        with open(os.path.join(self._folder, name), encoding="utf-8") as file:
            return json.load(file)

    def gradients(self):
        """{path of a parameter as layout.json has it: what the optimizer was given, or None}"""
        found = dict.fromkeys(self.parameters)
        for entry, members in self._load("reduced_gradients.json")["data"].items():
            path = entry[len("Module."):-len(".parameters_grad.reduced")].rpartition(".")[0]   # without the class
            for name, (described,) in members.items():
                found[path + "." + name] = torch.load(os.path.join(self._folder, "reduced_tensor_data", described["data_name"]))
        return found

    def globally(self, path):
        """The name of a module or parameter in the whole model."""
        layers = self.layout.get("layers", {})
        fitting = [key for key in layers if path == key or path.startswith(key + ".")]
        if not fitting:
            return path
        key = max(fitting, key=len)
        return (layers[key] + path[len(key):]).lstrip(".")


def whole_gradients(ranks):
    """{name in the whole model: gradient}"""
    pieces = {}
    for rank in ranks:
        for path, gradient in rank.gradients().items():
            pieces.setdefault(rank.globally(path), []).append((rank.parameters[path], gradient))
    return {name: _whole(of_ranks) for name, of_ranks in pieces.items()}


def _whole(pieces):
    shape = pieces[0][0]["global_shape"]
    whole = torch.full(shape, float("nan"))
    for entry, gradient in pieces:
        flat = entry.get("optimizer_flat", entry.get("flat"))
        if flat is not None:
            count = flat[1] - flat[0]
            assert (0 if gradient is None else gradient.numel()) == count, (entry, gradient)
            if count:
                whole.view(-1)[flat[0]:flat[1]] = gradient.flatten().float()
        elif gradient is not None:
            place = whole
            for cut in entry.get("placements", [entry]):
                if cut["kind"] == "shard":
                    place = place.chunk(cut["parts"], cut["dim"])[cut["part"]]
            place.copy_(gradient)
    return whole


class LayoutCase(harness.FrameworkCase):
    environment = {}
    subject = "layout.json, gradients as the optimizer is given them"

    def ranks(self, script, *arguments):
        """The two ranks of a script of this framework, captured by the launcher."""
        folder = self.folder()
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        of_framework = os.path.dirname(os.path.abspath(script))
        run = subprocess.run(
            [harness.MSPROBE, "dump", "--dump_path", "dump", "--task", "tensor", "--level", "mix", "--step", "0", "--",
             sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2", "--master_addr", "127.0.0.1",
             "--master_port", str(port), script, *arguments],
            cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=600,
            env=dict(os.environ, MSPROBE_RUN='{"steps": 1}', PYTHONWARNINGS="ignore", OMP_NUM_THREADS="1",
                     PYTHONPATH=os.pathsep.join([HERE, of_framework, os.environ.get("PYTHONPATH", "")]), **self.environment))
        self.assertEqual(run.returncode, 0, run.stdout.decode("utf-8", "replace")[-3000:])
        self.assertNotIn("layout.json", run.stdout.decode("utf-8", "replace"))   # nothing was left out
        return [Rank(os.path.join(folder, "dump", "step0", "rank%d" % rank)) for rank in (0, 1)]

    def assert_agree(self, gradients, others, **tolerance):
        self.assertEqual(sorted(gradients), sorted(others))
        for name, gradient in gradients.items():
            self.assertFalse(gradient.isnan().any(), name + ": a piece is missing")
            self.assertTrue(torch.allclose(gradient, others[name], **tolerance), name)
