"""PrecisionChecker: eager against compiled, module by module.

Two passes: the model runs as it is, and a deep copy of it with the marked modules compiled; hooks record both ends of every module at
or below a marked one. They are not traced, so that a compiled module falls into pieces at its children: what is compared is each
piece, not the kernels of the whole (msprobe compile_check looks at those). Single pass: the marked modules are compiled in place, and
each call of one is repeated by its eager form on the same inputs, random numbers and buffers."""
import contextlib
import copy
import os
import uuid

import torch

from msprobe import _native
from msprobe._intercept.runtime import log
from msprobe.pytorch.compile_accuracy_checker import differences
from msprobe.pytorch.compile_accuracy_checker.differences import CompareResult, ModuleDiff, kept

_WRAPPED, _IGNORED = "_pc_wrapped", "_pc_ignored"
_CONTAINERS = (torch.nn.ModuleList, torch.nn.ModuleDict, torch.nn.Sequential)
_MOST_DEPTH = 50


# ---- tensors of values ----

def _tensors(value, depth=0):
    """Those of a value: lists, tuples and dicts nested."""
    if isinstance(value, torch.Tensor):
        return [value]
    if depth < _MOST_DEPTH and isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _tensors(item, depth + 1)]
    if depth < _MOST_DEPTH and isinstance(value, dict):
        return [tensor for item in value.values() for tensor in _tensors(item, depth + 1)]
    return []


def _mapped(value, function, depth=0):
    if isinstance(value, torch.Tensor):
        return function(value)
    if depth < _MOST_DEPTH and type(value) in (list, tuple):
        return type(value)(_mapped(item, function, depth + 1) for item in value)
    if depth < _MOST_DEPTH and type(value) is dict:
        return {key: _mapped(item, function, depth + 1) for key, item in value.items()}
    return value


class _Randomness:
    """The states of all generators now."""

    def __init__(self):
        self._host = torch.get_rng_state()
        self._devices = [(device, device.get_rng_state_all()) for device in
                         (getattr(torch, name, None) for name in ("cuda", "npu")) if device is not None and device.is_available()]

    def put(self):
        torch.set_rng_state(self._host)
        for device, states in self._devices:
            device.set_rng_state_all(states)


class _Buffers:
    """The buffers of a module now, such as those of batch normalization."""

    def __init__(self, module):
        self._values = [(buffer, buffer.detach().clone()) for buffer in module.buffers()]

    def put(self):
        with torch.no_grad():
            for buffer, value in self._values:
                buffer.copy_(value)


# ---- two passes ----

class _Ends:
    """Both ends of the last call of one module: what they were, then their gradients."""

    def __init__(self):
        self.values = {}
        self.gradients = {}

    def see(self, end, tensors, values_too):
        if values_too:
            self.values[end] = [kept(tensor) for tensor in tensors]
        gradients = self.gradients[end] = [None] * len(tensors)
        for place, tensor in enumerate(tensors):
            if tensor.requires_grad:
                tensor.register_hook(lambda gradient, place=place: gradients.__setitem__(place, kept(gradient)))

    def of(self, check):
        kind, end = check.split("_")
        found = (self.values if kind == "fwd" else self.gradients).get(end)
        return found if found and any(one is not None for one in found) else None


def _hook(module, ends, with_inputs):
    """Records the calls of a module; the hooks are not traced."""
    untraced = torch._dynamo.disable
    before = untraced(lambda _, args: ends.see("input", _tensors(args), with_inputs))
    after = untraced(lambda _, args, output: ends.see("output", _tensors(output), True))
    return [module.register_forward_pre_hook(before), module.register_forward_hook(after)]


# ---- single pass ----

class _Compiled:
    """A module that is compiled in place, and its last call."""

    def __init__(self, name, wrapper, original):
        self.name = name
        self._wrapper = wrapper
        self._original = original
        self._begun = []
        self._call = None
        self.outputs = self.inputs = self._gradient = None
        self._handles = [wrapper.register_forward_pre_hook(self._before, with_kwargs=True),
                         wrapper.register_forward_hook(self._after, with_kwargs=True)]

    def _before(self, module, args, kwargs):
        self._begun.append((_Randomness(), _Buffers(self._original)))

    def _after(self, module, args, kwargs, output):
        random, buffers = self._begun.pop()
        detach = torch.Tensor.detach
        self._call = _mapped(args, detach), _mapped(kwargs, detach), random, buffers
        with torch.no_grad():
            eager = self._again(self._original, *self._call)
        self.inputs = [kept(tensor) for tensor in _tensors(args) + _tensors(kwargs)]
        self.outputs = [kept(tensor) for tensor in _tensors(eager)], [kept(tensor) for tensor in _tensors(output)]
        self._gradient = None
        first = next(iter(_tensors(output)), None)
        if first is not None and first.requires_grad:
            first.register_hook(self._see_gradient)

    def _see_gradient(self, gradient):
        self._gradient = gradient.detach().clone()

    def _again(self, function, args, kwargs, random, buffers):
        """What the call would have given with another form of the module; states are afterwards as before."""
        now, buffers_now = _Randomness(), _Buffers(self._original)
        random.put()
        buffers.put()
        try:
            return function(*args, **kwargs)
        finally:
            now.put()
            buffers_now.put()

    def _input_gradients(self, function):
        args, kwargs, random, buffers = self._call
        leaves = []

        def leaf(tensor):
            tensor = tensor.detach().clone()
            if tensor.is_floating_point() or tensor.is_complex():
                leaves.append(tensor.requires_grad_())
            return tensor

        args = _mapped(args, leaf)  # the positional ones: those of which the Python tool has rows
        with torch.enable_grad():
            first = _tensors(self._again(function, args, kwargs, random, buffers))[0]
            found = torch.autograd.grad(first, leaves, self._gradient, allow_unused=True) if leaves else ()
        return [None if gradient is None else kept(gradient) for gradient in found]

    def diff(self):
        for handle in self._handles:
            handle.remove()
        if self.outputs is None:
            return ModuleDiff(self.name, "MISSING_fwd_in_compiled")
        gradients = None
        if self._gradient is not None:
            gradients = differences.differences(self._input_gradients(self._original),
                                                self._input_gradients(self._wrapper.forward))
        return ModuleDiff(self.name, fwd_output=differences.differences(*self.outputs), grad_input=gradients)


# ---- the checker ----

class PrecisionChecker:
    """Mark modules, then compare(fn, model), or install(model), a step of your own, collect(loss).
    `threshold` has no effect, as in the Python tool: tensors agree within 1e-4 + 1e-3 * |compiled|."""

    def __init__(self, backend="aot_eager", threshold=1e-4, dump_graphs=False, graph_dir="./graph_dump", cast_dtype=None,
                 capture_input=True, single_pass=True):
        if not hasattr(torch, "compile"):
            raise RuntimeError("PrecisionChecker needs torch.compile, which PyTorch %s does not have" % torch.__version__)
        self.backend = backend
        self.threshold = threshold
        self.dump_graphs = dump_graphs
        self.graph_dir = graph_dir
        self.cast_dtype = cast_dtype
        self.capture_input = capture_input
        self.single_pass = single_pass
        self._graphs = 0

    # ---- marks ----

    def wrap(self, module, name=None):
        """This module is compiled."""
        vars(module)[_WRAPPED] = True
        return module

    def wrap_by_policy(self, model, types):
        for module in model.modules():
            if isinstance(module, types):
                self.wrap(module)

    def wrap_all_children(self, model, depth=1):
        """The modules `depth` levels below the children; containers are opened without counting."""
        for child in model.children():
            if isinstance(child, _CONTAINERS):
                self.wrap_all_children(child, depth)
            elif depth <= 0 or not any(True for _ in child.children()):
                self.wrap(child)
            else:
                self.wrap_all_children(child, depth - 1)

    def ignore(self, module):
        """Neither this module nor what is in it is looked at."""
        vars(module)[_IGNORED] = True

    def ignore_by_policy(self, model, types):
        for module in model.modules():
            if isinstance(module, types):
                self.ignore(module)

    @staticmethod
    def _marked(model):
        """Paths of the outermost marked modules."""
        found = []
        for path, module in model.named_modules():
            inside = any(not outer or path.startswith(outer + ".") for outer in found)
            if getattr(module, _WRAPPED, False) and not inside:
                found.append(path)
        return found

    @staticmethod
    def _ignored(model):
        return [path for path, module in model.named_modules() if getattr(module, _IGNORED, False)]

    @staticmethod
    def _is_at_or_below(path, others):
        return any(path == other or not other or path.startswith(other + ".") for other in others)

    # ---- compiling ----

    def _compile(self, module):
        return torch.compile(module, backend=self._backend(), fullgraph=False)

    def _backend(self):
        if not self.dump_graphs:
            return self.backend
        backend = self.backend
        if not callable(backend):
            backend = torch._dynamo.backends.registry.lookup_backend(backend)

        def written(graph, inputs, **options):
            self._write_graph(graph)
            return backend(graph, inputs, **options)

        return written

    def _write_graph(self, graph):
        try:
            os.makedirs(self.graph_dir, mode=0o750, exist_ok=True)
            name = "__compiled_fn_%d.captured.%s.py" % (self._graphs, uuid.uuid4().hex[:8])
            self._graphs += 1
            with open(os.path.join(self.graph_dir, name), "w", encoding="utf-8") as file:
                file.write(graph.print_readable(print_output=False))
        except (OSError, RuntimeError, TypeError) as error:
            log(_native.LOG_WARNING, "PrecisionChecker: a graph is not written: %s" % error)

    def _replace(self, model, path):
        """(compiled, original) of a module, which stands in its place where it has one."""
        original = model.get_submodule(path)
        compiled = self._compile(original)
        parent, _, name = path.rpartition(".")
        if path:
            holder = model.get_submodule(parent)
            if name in holder._modules:
                holder._modules[name] = compiled
        return compiled, original

    def _cast(self, model):
        if self.cast_dtype is None:
            return contextlib.nullcontext()
        device = next((parameter.device.type for parameter in model.parameters()), "cpu")
        return torch.autocast(device, dtype=self.cast_dtype)

    # ---- two passes ----

    def compare(self, fn, model):
        """fn(model) gives the loss, and runs its backward where gradients are to be compared."""
        if self.single_pass:
            return self._compare_in_place(fn, model)
        ends, losses = [], []
        twin = copy.deepcopy(model)
        marked, ignored = self._marked(model), self._ignored(model)
        random = _Randomness()
        for one, compiles in ((model, False), (twin, True)):
            random.put()
            found, handles = {}, []
            for path, module in list(one.named_modules()):
                if path and self._is_at_or_below(path, marked or [""]) and not self._is_at_or_below(path, ignored):
                    found[path.replace(".module", "")] = _Ends()
                    handles += _hook(module, found[path.replace(".module", "")], self.capture_input)
            runner = one
            for path in marked if compiles else ():
                compiled, _ = self._replace(one, path)
                runner = runner if path else compiled
            torch._dynamo.reset()
            trains = one.training
            one.train()
            try:
                with self._cast(one):
                    losses.append(float(fn(runner)))
            finally:
                one.train(trains)
                for handle in handles:
                    handle.remove()
                one.zero_grad(set_to_none=True)
            ends.append(found)
        diffs = [ModuleDiff(path, differences.IGNORED) for path in ignored if path]
        diffs += [self._diff(name, ends[0][name], ends[1].get(name)) for name in ends[0]]
        return self._result(losses[0], losses[1], diffs, bool(marked))

    @staticmethod
    def _diff(name, eager, compiled):
        if not eager.values and not compiled.values:
            return ModuleDiff(name, "SKIP_not_called")
        if not compiled.values or not eager.values:
            return ModuleDiff(name, "MISSING_fwd_in_%s" % ("eager" if compiled.values else "compiled"))
        return ModuleDiff(name, **{check: differences.differences(eager.of(check), compiled.of(check))
                                   for check in differences.CHECKS})

    def _result(self, eager, compiled, diffs, any_compiled):
        if not any_compiled:
            log(_native.LOG_WARNING, "PrecisionChecker: no module is marked, so nothing was compiled: wrap(module), "
                "wrap_by_policy(model, types) or wrap_all_children(model)")
        return CompareResult(eager, compiled, sorted(diffs, key=lambda one: one.name), self.cast_dtype, any_compiled)

    # ---- single pass ----

    def install(self, model):
        """Compiles the marked modules in place; the model to call is what this returns."""
        if not self.single_pass:
            raise RuntimeError("install() belongs to single_pass=True; with single_pass=False call compare(fn, model)")
        self._loss = float("nan")
        ignored = self._ignored(model)
        self._skipped = [path for path in ignored if path]
        self._installed = []
        returned = model
        for path in self._marked(model):
            compiled, original = self._replace(model, path)
            returned = returned if path else compiled
            if not self._is_at_or_below(path, ignored):  # compiled all the same
                self._installed.append(_Compiled(path, compiled, original))
        return returned

    def record_loss(self, loss):
        self._loss = float(loss)

    def collect(self, loss=None):
        """The comparison of the calls since install()."""
        if loss is not None:
            self.record_loss(loss)
        diffs = [ModuleDiff(path, differences.IGNORED) for path in self._skipped]
        diffs += [one.diff() for one in self._installed]
        return self._result(float("nan"), self._loss, diffs, bool(self._installed))

    def _compare_in_place(self, fn, model):
        runner = self.install(model)
        with self._cast(model):
            warm = fn(runner)
            if isinstance(warm, torch.Tensor) and warm.requires_grad and warm.grad_fn is not None:
                with contextlib.suppress(RuntimeError):  # fn ran it itself
                    warm.backward()
            model.zero_grad(set_to_none=True)
            loss = fn(runner)
        return self.collect(loss)

    # ---- the report ----

    def report(self, result, csv_path=None):
        """Prints the comparison, and writes it as csv."""
        print(differences.text(result))
        if csv_path:
            differences.write_csv(result, csv_path)
