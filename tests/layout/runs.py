"""One side of a pair: a short training in one process or several (gloo), captured by PrecisionDebugger."""
import contextlib
import json
import os
import signal
import sys
import time
import traceback

import torch
import torch.distributed as dist
from msprobe.pytorch import PrecisionDebugger

import models
import parallel
from parallel import CONTEXT

if int(torch.__version__.split(".")[0]) >= 2:
    import torch._dynamo  # noqa: F401  optimizers of PyTorch 2 import it when they first step: once, not in every child
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

torch.set_num_threads(1)  # a pool of threads would not be in the children
SECONDS = 240             # a side that takes longer hangs


def has_newer_torch():
    return tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2] if part.isdigit()) >= (2, 6)


def grid_of(setup):
    return parallel.Grid(setup.get("tp", 1), setup.get("cp", 1), setup.get("dp", 1), setup.get("pp", 1))


def run(setup, folder, plant=None):
    """Trains as `setup` says in forked processes; dumps go to folder/dump, and what each rank tells is returned."""
    os.makedirs(folder)
    children = {}
    world = grid_of(setup).world
    for rank in range(world):
        child = os.fork()
        if child == 0:
            _child(setup, rank, world, folder, plant)
        children[child] = rank
    failed = _wait(children)
    if failed is not None:
        with open(os.path.join(folder, "log%d" % failed)) as file:
            raise RuntimeError("rank %d failed:\n%s" % (failed, file.read()[-3000:]))
    told = []
    for rank in range(world):
        with open(os.path.join(folder, "told%d.json" % rank)) as file:
            told.append(json.load(file))
    return told


def _child(setup, rank, world, folder, plant):
    status = 1
    try:
        log = os.open(os.path.join(folder, "log%d" % rank), os.O_WRONLY | os.O_CREAT)
        os.dup2(log, 1)
        os.dup2(log, 2)
        _train(setup, rank, world, folder, plant)
        status = 0
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _wait(children):
    """The rank that failed first, or None; the others are ended with it."""
    left, failed, deadline = dict(children), None, time.monotonic() + SECONDS
    while left:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child in left:
            rank = left.pop(child)
            if status != 0 and failed is None:
                failed = rank
                deadline = min(deadline, time.monotonic() + 1)
        elif time.monotonic() > deadline:
            failed = min(left.values()) if failed is None else failed
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            deadline += SECONDS
        else:
            time.sleep(0.01)
    return failed


# ---- in a rank ----


class Batches:
    """The data of a step, and the part of it that a rank sees."""

    def __init__(self, setup, plant):
        self.setup, self.plant = setup, plant

    def whole(self, step):
        setup = self.setup
        generator = torch.Generator().manual_seed(setup["seed"] * 100 + step)
        if setup["family"] == "Conv":
            return [torch.randn(setup["batch"], 3, 8, 8, generator=generator),
                    torch.randint(0, 6, (setup["batch"],), generator=generator)]
        text = torch.randint(0, setup["vocabulary"], (setup["batch"], setup["length"] + 2), generator=generator)
        length = setup["length"]
        if setup.get("ignored") is not None:  # each row ends in padding of its own length
            for row in range(setup["batch"]):
                text[row, length - 3 * row:] = setup["ignored"]
        again = self.plant is not None and self.plant.at("labels_shifted_twice")
        return [text[:, :length], text[:, 2:] if again else text[:, 1:length + 1]]

    def part(self, step, micro):
        setup = self.setup
        if micro and self.plant is not None and self.plant.at("stale_micro_batch"):
            micro -= 1
        found = []
        for value in self.whole(step):
            value = value.chunk(CONTEXT.size("dp"))[CONTEXT.index("dp")].chunk(setup["micro"])[micro]
            if CONTEXT.size("cp") > 1:
                chunks = value.chunk(2 * CONTEXT.size("cp"), 1)
                value = torch.cat([chunks[i] for i in models.sequence_chunks(CONTEXT.index("cp"), CONTEXT.size("cp"))], 1)
            found.append(value.contiguous())
        return found


def _build(setup):
    """[(model, its layers)] of this rank."""
    if setup["family"] == "Conv":
        return [(models.ConvNet(setup), [])]
    stages, found = models.stages(setup), []
    for number in range(CONTEXT.index("pp"), len(stages), CONTEXT.size("pp")):
        layers = [int(layer) for layer in stages[number]]
        found.append((models.GPT(setup, layers, number == 0, number == len(stages) - 1), layers))
    return found


def _load(setup, chunks, names, plant):
    """Every parameter gets its part of the whole; faults of loading happen here."""
    whole = models.whole_weights(setup)
    listed = len(chunks) > 1
    for index, (model, _) in enumerate(chunks):
        prefix = "%d." % index if listed else ""
        for name, module in model.named_modules():
            module.full_name = names.globally(prefix + name)
        for name, parameter in model.named_parameters():
            path = names.globally(prefix + name)
            value = models.to_table(setup, path, whole[path])
            part = CONTEXT.index("tp")
            if plant is not None:
                value, part = plant.loaded(path, value, part, whole)
            cut = models.placement(setup, path, CONTEXT.size("tp") if setup["style"] == "parallel" else 1).cut(value, part)
            with torch.no_grad():
                parameter.copy_(cut)
            parameter.path = path
            if setup["style"] == "parallel" and "norm" in path:
                parameter.sequence_parallel = CONTEXT.sequence_parallel


def _share_out(setup, model):
    """What PyTorch's own ways of sharing a model do to it; returns what is called."""
    if setup.get("dtensor"):
        mesh = init_device_mesh("cpu", (CONTEXT.size("dp"), CONTEXT.size("tp")), mesh_dim_names=("dp", "tp"))
        for layer in model.decoder.layers:
            parallelize_module(layer, mesh["tp"], {
                "self_attention.linear_qkv": ColwiseParallel(), "self_attention.linear_proj": RowwiseParallel(),
                "mlp.linear_fc1": ColwiseParallel(), "mlp.linear_fc2": RowwiseParallel()})
        if setup.get("fsdp"):
            _fully_shard(model, mesh["dp"])
    elif setup.get("fsdp"):
        _fully_shard(model, init_device_mesh("cpu", (CONTEXT.size("dp"),), mesh_dim_names=("fsdp",)))
    elif setup.get("ddp") and CONTEXT.size("dp") > 1:
        return torch.nn.parallel.DistributedDataParallel(model, process_group=CONTEXT.group("dp"))
    return model


def _fully_shard(model, mesh):
    for part in (model.decoder.layers if hasattr(model, "decoder") else model.blocks):
        fully_shard(part, mesh=mesh)
    fully_shard(model, mesh=mesh)


class Trainer:
    def __init__(self, setup, chunks, called, plant):
        self.setup, self.chunks, self.called, self.plant = setup, [model for model, _ in chunks], called, plant
        self.batches = Batches(setup, plant)
        self.stages = len(models.stages(setup)) if setup["family"] != "Conv" else 1

    def at(self, kind, place=None):
        return self.plant is not None and self.plant.at(kind, place)

    def scale(self):
        return 1 if self.at("accumulation_undivided") else self.setup["micro"]

    def load(self, step):
        """As a data loader does: before the step is recorded."""
        self.parts = [self.batches.part(step, micro) for micro in range(self.setup["micro"])]

    def step(self):
        if self.stages == 1:
            loss = self._plain()
        else:
            loss = self._pipeline()
        self._reduce()
        return loss

    def _plain(self):
        for micro in range(self.setup["micro"]):
            if micro and self.at("accumulation_lost"):
                for parameter in self.called.parameters():
                    parameter.grad = None
            no_sync = self.setup.get("ddp") and CONTEXT.size("dp") > 1 and micro + 1 < self.setup["micro"]
            with self.called.no_sync() if no_sync else contextlib.nullcontext():
                loss = self.called(*self.parts[micro]) / self.scale()
                loss.backward()
            self._after_micro_batch(micro)
        return loss

    def _after_micro_batch(self, micro):
        if self.at("running_sum_divided") and micro + 1 < self.setup["micro"]:
            for model in self.chunks:
                for parameter in model.parameters():
                    parameter.grad /= 2

    def _pipeline(self):
        pp, mine = CONTEXT.size("pp"), CONTEXT.index("pp")
        shape = self._shape()
        held = {}
        for micro in range(self.setup["micro"]):
            tokens, labels = self.parts[micro]
            for stage in range(self.stages):
                if stage % pp != mine:
                    continue
                model = self.chunks[stage // pp]
                if stage == 0:
                    value = tokens
                else:
                    value = torch.empty(shape)
                    dist.recv(value, self._neighbour(-1))
                    value.requires_grad_()
                result = model(value, labels) if stage + 1 == self.stages else model(value)
                if stage + 1 < self.stages:
                    dist.send(result.detach().contiguous(), self._neighbour(1))
                held[micro, stage] = value, result
        for micro in range(self.setup["micro"]):
            for stage in reversed(range(self.stages)):
                if stage % pp != mine:
                    continue
                value, result = held.pop((micro, stage))
                if stage + 1 == self.stages:
                    loss = result / self.scale()
                    loss.backward()
                else:
                    gradient = torch.empty(shape)
                    dist.recv(gradient, self._neighbour(1))
                    result.backward(gradient)
                if stage > 0:
                    dist.send(value.grad.contiguous(), self._neighbour(-1))
            self._after_micro_batch(micro)
        return None

    def _neighbour(self, step):
        place = CONTEXT.grid.place(CONTEXT.rank)
        return CONTEXT.grid.rank(**dict(place, pp=(place["pp"] + step) % CONTEXT.size("pp")))

    def _shape(self):
        setup = self.setup
        length = setup["length"] // CONTEXT.size("cp") // (CONTEXT.size("tp") if CONTEXT.sequence_parallel else 1)
        rows = setup["batch"] // CONTEXT.size("dp") // setup["micro"]
        return (length, rows, setup["hidden"]) if setup["order"] == "sbh" else (rows, length, setup["hidden"])

    def _reduce(self):
        """Gradients as the optimizer is given them."""
        setup = self.setup
        if setup.get("fsdp") or setup.get("dtensor"):
            return
        ranks = CONTEXT.size("dp") * CONTEXT.size("cp")
        for model in self.chunks:
            for parameter in model.parameters():
                name, gradient = parameter.path, parameter.grad
                if gradient is None:
                    continue
                if getattr(parameter, "sequence_parallel", False) and not self.at("sequence_gradient_not_reduced", name):
                    dist.all_reduce(gradient, group=CONTEXT.group("tp"))
                if ranks == 1 or setup.get("ddp"):
                    continue
                group = CONTEXT.group("dp+cp")
                if setup.get("ep", 1) > 1 and ".experts." in name:
                    gradient /= ranks
                    continue
                if self.at("gradient_not_reduced", name):
                    continue
                if self.at("divided_by_loss_scale", name):
                    gradient /= 65536
                if self.at("gradient_over_wrong_group", name):
                    group = CONTEXT.group("tp")
                dist.all_reduce(gradient, group=group)
                if self.at("gradient_reduced_twice", name):
                    dist.all_reduce(gradient, group=group)
                if not self.at("gradient_summed", name):  # an average that is a sum
                    gradient /= ranks
                if self.at("gradient_divided_twice", name):
                    gradient /= ranks


def _clip(model, setup, plant):
    """Scales all gradients by one factor; the norm counts every parameter of the whole model once."""
    total = torch.zeros(())
    for chunk in model:
        for parameter in chunk.parameters():
            if parameter.grad is None:
                continue
            is_cut = getattr(parameter, "tensor_model_parallel", False)
            if is_cut or CONTEXT.index("tp") == 0 or (plant is not None and plant.at("clip_counts_replicas")):
                total += parameter.grad.pow(2).sum()
    if CONTEXT.size("tp") > 1 and not (plant is not None and plant.at("clip_by_local_norm")):
        dist.all_reduce(total, group=CONTEXT.group("tp"))
    if CONTEXT.size("pp") > 1:
        dist.all_reduce(total, group=CONTEXT.group("pp"))
    factor = min(1.0, setup["clip"] / (float(total.sqrt()) + 1e-6))
    for chunk in model:
        for parameter in chunk.parameters():
            if parameter.grad is not None:
                parameter.grad *= factor


def _train(setup, rank, world, folder, plant):
    torch.set_num_threads(1)
    torch.manual_seed(setup["seed"])
    if world > 1:
        # A file can be met by all, a free port may be taken by another.
        dist.init_process_group("gloo", init_method="file://" + os.path.join(folder, "meeting"), rank=rank, world_size=world)
    if plant is not None:
        plant.rank = rank
    CONTEXT.start(setup, grid_of(setup), rank, plant)
    chunks = _build(setup)
    names = models.Names(setup, chunks)
    _load(setup, chunks, names, plant)
    for model, _ in chunks:
        if plant is not None:
            plant.into(model)
    called = _share_out(setup, chunks[0][0])
    parameters = [parameter for model, _ in chunks for parameter in model.parameters()]
    optimizer = torch.optim.SGD(parameters, lr=0.05) if setup["optimizer"] == "SGD" else \
        torch.optim.AdamW(parameters, lr=1e-3)

    with open(os.path.join(folder, "config%d.json" % rank), "w") as file:
        json.dump({"task": setup["task"], "level": setup["level"], "dump_path": os.path.join(folder, "dump"),
                   setup["task"]: {}}, file)
    debugger = PrecisionDebugger(os.path.join(folder, "config%d.json" % rank))
    watched = called if setup.get("watches_wrapper") else chunks[0][0]
    watched = [model for model, _ in chunks] if len(chunks) > 1 else watched
    trainer = Trainer(setup, chunks, called, plant)
    gradients, is_distributed = [], setup.get("fsdp") or setup.get("dtensor")  # the oracle's, not the capture's
    for step in range(setup["steps"]):
        if plant is not None:
            plant.step = step
        trainer.load(step)
        debugger.start(model=watched)
        trainer.step()
        if setup.get("clip"):
            _clip([model for model, _ in chunks], setup, plant)
        gradients.append({parameter.path: parameter.grad.detach().clone() for parameter in parameters
                          if parameter.grad is not None and not is_distributed})
        if not setup["records_update"]:
            debugger.stop()
        if not (trainer.at("update_lost") and step == 0):
            optimizer.step()
        if setup["records_update"]:
            debugger.stop()
        if not trainer.at("divided_by_loss_scale"):
            optimizer.zero_grad(set_to_none=True)
        debugger.step()
    debugger._session.close()
    torch.save(gradients, os.path.join(folder, "gradients%d.pt" % rank))
    with open(os.path.join(folder, "told%d.json" % rank), "w") as file:
        json.dump({"layers": names.layers, "experts": names.experts, "fired": plant.fired if plant is not None else 0,
                   "parameters": {("%d." % index if len(chunks) > 1 else "") + name: list(parameter.shape)
                                  for index, (model, _) in enumerate(chunks) for name, parameter in model.named_parameters()}}, file)
    if world > 1:
        dist.barrier()
        dist.destroy_process_group()
