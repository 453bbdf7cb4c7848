"""What goes into modules and comes out of them, and the gradients at both ends.

Inputs pass through a view, whose node gives the gradient of this call alone; outputs are hooked as
they are. Nothing is copied. A view allows changes in place; what it would not show then (a module
that overwrites its input) is noticed by the tensor's version, and from the next call on such inputs
are hooked as they are, too.
"""
import torch

from msprobe import _kinds, _monitor, _native
from msprobe._apis import Patches
from msprobe.pytorch import patches
from msprobe.pytorch.monitor.features import LayerFeatures

_view_as = torch.Tensor.view_as
# Before PyTorch 2 a hook joins those that a tensor has, although it was overwritten since: it then
# sees the gradient of what the tensor was.
_HOOKS_STAY_BEHIND = int(torch.__version__.split(".")[0]) < 2


def _is_plain(value):
    """Whether a view can stand for it: a tensor with a gradient, and nothing that others left at
    it."""
    return type(value) is torch.Tensor and value.requires_grad and not value.__dict__


class Module:
    """A module that is watched."""

    __slots__ = ("module", "name", "features", "slots", "gradient_slots", "micro_steps",
                 "forward_micro_step", "backward_micro_step", "in_place")

    def __init__(self, module, name, features, micro_steps):
        self.module = module  # held: its id is the key
        self.name = name  # None: only its features are recorded
        self.features = features
        self.slots = None
        self.gradient_slots = None
        self.micro_steps = micro_steps
        self.in_place = getattr(module, "inplace", False) is True
        self.begin_step()

    def begin_step(self):
        self.forward_micro_step = 0
        self.backward_micro_step = 0

    def next_forward(self):
        micro_step = self.forward_micro_step
        self.forward_micro_step = (micro_step + 1) % self.micro_steps
        return micro_step

    def next_backward(self):
        micro_step = self.backward_micro_step
        self.backward_micro_step = (micro_step + 1) % self.micro_steps
        return micro_step


class _Call:
    """Gradients of one call. They are recorded when those of all inputs are known."""

    __slots__ = ("modules", "known", "generation", "count", "inputs", "outputs", "waiting",
                 "versions", "missing", "micro_step", "done")

    def __init__(self, modules, known):
        self.modules = modules
        self.known = known
        self.generation = modules.generation
        self.inputs = ()
        self.outputs = None
        self.waiting = 0
        self.versions = ()
        self.missing = 0  # outputs whose gradient has not come
        self.micro_step = None
        self.done = False

    def pass_inputs(self, args, kwargs):
        """The arguments, tensors that require a gradient replaced by views of them."""
        named = [key for key, value in kwargs.items()
                 if isinstance(value, torch.Tensor) and value.requires_grad] if kwargs else ()
        self.inputs = [None] * (len(args) + len(named))
        replaced = None
        versions = []
        for index, value in enumerate(args):
            if isinstance(value, torch.Tensor) and value.requires_grad:
                passed = self._pass(index, value, versions)
                if passed is not value:
                    replaced = list(args) if replaced is None else replaced
                    replaced[index] = passed
        if named:
            kwargs = dict(kwargs)
            for index, key in enumerate(named, len(args)):
                kwargs[key] = self._pass(index, kwargs[key], versions)
        self.versions = versions
        return (args if replaced is None else tuple(replaced)), kwargs

    def _pass(self, index, tensor, versions):
        if isinstance(tensor, torch.nn.Parameter):
            return tensor  # it carries what frameworks left at it, and has its own rows
        self.waiting += 1
        if self.known.in_place or not _is_plain(tensor):
            # Overwritten, or more than a tensor: the gradient of all its uses.
            handle = tensor.register_hook(lambda gradient: self._input(index, gradient))
            if tensor.grad_fn is None:
                self.modules.leaf_handles.append(handle)
            return tensor
        view = _view_as(tensor, tensor)
        view.grad_fn.register_hook(lambda gradients, _: self._input(index, gradients[0]))
        versions.append((view, view._version))
        return view

    def see_output(self, output):
        """The output to give on in place of this one."""
        known = self.known
        for tensor, version in self.versions:
            if tensor._version != version:
                known.in_place = True
        self.versions = ()
        if isinstance(output, torch.Tensor):
            # What a module inside gave out has its hook: this one's comes first, at a view.
            if self.waiting == 0 and output._backward_hooks and _is_plain(output):
                output = _view_as(output, output)
            self._hook_outputs((output,))
        elif type(output) is tuple:
            # One of several may be used inside as well: a view shows what comes from outside.
            output = tuple([_view_as(value, value) if _is_plain(value) else value
                            for value in output])
            self._hook_outputs(output)
        elif isinstance(output, tuple):
            self._hook_outputs(output)
        return output

    def _hook_outputs(self, outputs):
        found = [(index, value) for index, value in enumerate(outputs)
                 if isinstance(value, torch.Tensor) and value.requires_grad]
        self.outputs = [None] * len(outputs)
        self.missing = len(found)
        for index, value in found:
            if _HOOKS_STAY_BEHIND and value._backward_hooks and value.grad_fn is not None:
                value._backward_hooks = None  # those before stay where they are
            handle = value.register_hook(
                lambda gradient, at=index: self._output(at, gradient))
            if value.grad_fn is None:  # a parameter: its hooks would stay
                self.modules.leaf_handles.append(handle)

    # ---- in the backward pass ----

    def _output(self, index, gradient):
        if self.done:
            return
        self.outputs[index] = gradient
        self.missing -= 1
        if self.micro_step is None:
            self.micro_step = self.known.next_backward()
            self.modules.open_calls.append(self)
        if self.waiting == 0 and self.missing == 0:
            self._end()

    def _input(self, index, gradient):
        # Without a micro step: the gradient came past the call's outputs.
        if self.micro_step is None or self.done:
            return
        self.inputs[index] = gradient
        self.waiting -= 1
        if self.waiting == 0:
            self._end()

    def _end(self):
        self.done = True
        modules = self.modules
        if modules.active and modules.generation == self.generation:
            modules.record_gradients(self.known, self.micro_step, self.inputs, self.outputs)
        self.inputs = self.outputs = ()

    def end_if_open(self):
        """Unused inputs and outputs have no gradient: what came is told."""
        if not self.done:
            self._end()


class Modules(_monitor.Collector):
    """Module.__call__ is replaced while a step is measured."""

    def __init__(self, monitor):
        super().__init__(monitor)
        settings = monitor.settings
        one_way = settings["forward_only"] != settings["backward_only"]
        both = not settings["forward_only"] and not settings["backward_only"]
        measured = settings["xy_distribution"] and monitor.measures_modules
        self._forward = measured and (both or one_way and settings["forward_only"])
        self._backward = measured and (both or one_way and settings["backward_only"])
        if measured and not self._forward and not self._backward:
            monitor.say_once(_kinds.LOG_WARNING, "monitor: forward_only and backward_only are both "
                                                 "true: no module is watched")
        self._observers = monitor.module_observers
        self._gradients_seen = self._backward or any(observer.wants_gradients
                                                     for observer in self._observers)
        self._names_wanted = bool(self._forward or self._backward or self._observers)
        self._features = LayerFeatures(monitor) if LayerFeatures.wanted(settings) else None
        self._known = {}
        self._compiled = {}
        self._places = []
        self._recompute = Patches(patches.recompute_places)
        self._original = None
        self._call = None
        self.open_calls = []  # their gradients began to come in this step
        self.active = False
        self.generation = 0
        self.leaf_handles = []

    @staticmethod
    def wanted(settings):
        return (settings["xy_distribution"] or settings["print_struct"] or settings["stack_info"]
                or LayerFeatures.wanted(settings))

    # ---- which ----

    def watch(self, watched):
        for stage, model in watched.stages():
            inside = set()
            for path, module in model.named_modules():
                if id(module) in inside or id(module) in self._known:
                    continue
                if self._is_closed(module, path):
                    inside.update(id(part) for part in module.modules())
                    continue
                if type(module).__name__ == "FullyShardedDataParallel":
                    continue
                name = self.engine.name_module(stage, path) if self._names_wanted else None
                features = self._features.of(stage, path, module) if self._features else ()
                if name is not None or features:
                    self._known[id(module)] = self._make(module, name, features,
                                                         watched.micro_steps)

    def _is_closed(self, module, path):
        """Whether what happens inside its calls cannot be seen."""
        compiled = (type(module).__name__ == "OptimizedModule"
                    or getattr(module, "_compiled_call_impl", None) is not None)
        if compiled:
            self._compiled[id(module)] = module
        if compiled or isinstance(module, torch.jit.ScriptModule):
            self.monitor.say_once(
                _kinds.LOG_WARNING, "monitor: %s is compiled: what happens inside it cannot be seen"
                % (path or "the model"))
            return True
        return False

    def _make(self, module, name, features, micro_steps):
        known = Module(module, name, features, micro_steps)
        if name is None:
            return known
        slot = self.engine.slot
        if self._forward:
            known.slots = (slot(_monitor.ACTV, name + ".input", "actv"),
                           slot(_monitor.ACTV, name + ".output", "actv"))
        if self._backward:
            known.gradient_slots = (slot(_monitor.ACTV_GRAD, name + ".input", "actv_grad"),
                                    slot(_monitor.ACTV_GRAD, name + ".output", "actv_grad"))
        return known

    # ---- in place ----

    def start(self):
        self.generation += 1
        if self._features:
            self._features.drop()
        for known in self._known.values():
            known.begin_step()
        if self.active or not (self._known or self._compiled):
            return
        self.active = True
        self._recompute.put()
        if torch.nn.Module.__call__ is not self._call:
            self._replace_call()

    def stop(self):
        if not self.active:
            return
        self.active = False
        self._recompute.take()
        self._drop_leaf_handles()
        # Wrapped by somebody else meanwhile: ours stays and passes on.
        if torch.nn.Module.__call__ is self._call:
            torch.nn.Module.__call__ = self._original
        self._call = None

    def before_update(self, watched):
        self._end_open_calls()

    def finish_step(self):
        self._end_open_calls()
        self._drop_leaf_handles()
        if self._features:
            self._features.finish_step()

    def _end_open_calls(self):
        calls, self.open_calls = self.open_calls, []
        for call in calls:
            call.end_if_open()

    def _drop_leaf_handles(self):
        handles, self.leaf_handles = self.leaf_handles, []
        for handle in handles:
            handle.remove()

    def _replace_call(self):
        original, known_modules, modules = torch.nn.Module.__call__, self._known, self

        def call(self, *args, **kwargs):
            if modules.active and modules._call is call:
                known = known_modules.get(id(self))
                if known is not None:
                    return modules._observe(original, known, self, args, kwargs)
                if id(self) in modules._compiled:
                    return modules._call_compiled(self, args, kwargs)
            return original(self, *args, **kwargs)

        self._original = original
        self._call = call
        torch.nn.Module.__call__ = call

    def _call_compiled(self, module, args, kwargs):
        """The compiler traces the framework's own functions, not stand-ins."""
        self.stop()
        try:
            return module(*args, **kwargs)
        finally:
            self.active = True
            self._recompute.put()
            if torch.nn.Module.__call__ is not self._call:
                self._replace_call()

    # ---- one call ----

    def _observe(self, original, known, module, args, kwargs):
        call = None
        passed_args, passed_kwargs = args, kwargs
        if self._gradients_seen and known.name is not None and torch.is_grad_enabled():
            try:
                call = _Call(self, known)
                passed_args, passed_kwargs = call.pass_inputs(args, kwargs)
            except Exception as error:
                call = None
                passed_args, passed_kwargs = args, kwargs
                self.monitor.failed("inputs of %s" % known.name, error)
        output = original(module, *passed_args, **passed_kwargs)
        try:
            if module.training and not _native.is_recomputing():
                self._record_forward(known, args, kwargs, output)
        except Exception as error:
            self.monitor.failed("forward of %s" % known.name, error)
        if call is None:
            return output
        try:
            return call.see_output(output)
        except Exception as error:
            self.monitor.failed("output of %s" % known.name, error)
            return output

    def _record_forward(self, known, args, kwargs, output):
        micro_step = known.next_forward()
        if known.slots is not None:
            self.engine.forward(known.slots[0], known.slots[1], micro_step, args, kwargs, output)
        for feature in known.features:
            self._record_feature(feature, known, micro_step, args, kwargs, output)
        if known.name is None:
            return
        for observer in self._observers:
            observer.forward(known, args, kwargs, output)

    def _record_feature(self, feature, *call):
        try:
            feature.record(*call)
        except Exception as error:  # the others are recorded all the same
            self.monitor.failed("features of layers", error)

    def record_gradients(self, known, micro_step, inputs, outputs):
        try:
            if known.gradient_slots is not None:
                of_inputs, of_outputs = known.gradient_slots
                self.engine.values(of_inputs, micro_step, inputs)
                self.engine.values(of_outputs, micro_step, outputs)
            for observer in self._observers:
                observer.backward(known, inputs, outputs)
        except Exception as error:
            self.monitor.failed("gradients of %s" % known.name, error)
