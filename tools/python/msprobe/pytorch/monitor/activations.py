"""What goes into modules and comes out of them, and the gradients at both ends."""
import weakref

import torch

from msprobe import _monitor, _native
from msprobe._intercept import gradients
from msprobe._intercept.modules import ModuleCalls
from msprobe.pytorch import graph, patches
from msprobe.pytorch.monitor.features import LayerFeatures


class Module:
    """A module that is watched."""

    __slots__ = ("_reference", "name", "features", "slots", "gradient_slots", "micro_steps",
                 "forward_micro_step", "backward_micro_step")

    def __init__(self, module, forget, name, features, micro_steps):
        self._reference = weakref.ref(module, forget)  # its id is the key as long as it lives
        self.name = name  # None: only its features are recorded
        self.features = features
        self.slots = None
        self.gradient_slots = None
        self.micro_steps = micro_steps
        self.begin_step()

    @property
    def module(self):
        return self._reference()

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


def _with_gradient(values):
    """[(place, tensor)] of those that get a gradient."""
    return [(place, value) for place, value in enumerate(values)
            if isinstance(value, torch.Tensor) and value.requires_grad]


class _Call:
    """One call of a watched module. Its gradients are recorded when those of all inputs are known.
    Parameters among the inputs have rows of their own."""

    __slots__ = ("args", "kwargs", "_modules", "_known", "_module", "_generation", "_gradients",
                 "_input_places", "_output_places", "_inputs", "_outputs", "_micro_step")

    def __init__(self, modules, known, module, args, kwargs):
        self.args = args
        self.kwargs = kwargs
        self._modules = modules
        self._known = known
        self._module = module
        self._generation = modules.generation
        self._gradients = None
        if modules.gradients_seen and known.name is not None and torch.is_grad_enabled():
            named = [value for value in kwargs.values()
                     if isinstance(value, torch.Tensor) and value.requires_grad] if kwargs else []
            found = [(place, value) for place, value in _with_gradient(tuple(args) + tuple(named))
                     if not isinstance(value, torch.nn.Parameter)]
            self._inputs = len(args) + len(named)
            self._input_places = [place for place, _ in found]
            self._gradients = _native.CallGradients(graph.Reader, self)
            self._gradients.see_inputs([value for _, value in found])

    def failed(self):
        call, self._gradients = self._gradients, None
        if call is not None:
            call.leave()

    def after(self, output):
        modules, known = self._modules, self._known
        try:
            if self._module.training and not _native.is_recomputing():
                modules.record_forward(known, self.args, self.kwargs, output)
        except Exception as error:
            modules.monitor.failed("forward of %s" % known.name, error)
        call, self._gradients = self._gradients, None  # it holds this object while its graph lives
        if call is not None:
            try:
                self._see_outputs(call, output)
            except Exception as error:
                modules.monitor.failed("output of %s" % known.name, error)
        self.args = self.kwargs = self._module = None  # what outlives the call holds no values
        return output

    def _see_outputs(self, call, output):
        outputs = output if isinstance(output, tuple) else (output,)
        found = _with_gradient(outputs)
        self._outputs = len(outputs)
        self._output_places = [place for place, _ in found]
        call.see_outputs([value for _, value in found])
        if not call.complete:
            self._modules.monitor.say_once(
                _native.LOG_WARNING,
                "%s: the gradients of its inputs cannot be distinguished in the graph of its "
                "call: they are left out" % self._known.name)

    # ---- in the backward pass ----

    def begin(self):
        self._micro_step = self._known.next_backward()

    def end(self, of_outputs, of_inputs, complete):
        modules = self._modules
        if not modules.active or modules.generation != self._generation:
            return
        inputs, outputs = [None] * self._inputs, [None] * self._outputs
        if complete:
            for place, gradient in zip(self._input_places, of_inputs):
                inputs[place] = gradient
        for place, gradient in zip(self._output_places, of_outputs):
            outputs[place] = gradient
        before = _native.inside(True)
        try:
            modules.record_gradients(self._known, self._micro_step, inputs, outputs)
        finally:
            _native.inside(before)


class Modules(_monitor.Collector):
    """Calls of modules are seen while a step is measured: a subscriber of _intercept.modules."""

    def __init__(self, monitor):
        super().__init__(monitor)
        settings = monitor.settings
        one_way = settings["forward_only"] != settings["backward_only"]
        both = not settings["forward_only"] and not settings["backward_only"]
        measured = settings["xy_distribution"] and monitor.measures_modules
        self._forward = measured and (both or one_way and settings["forward_only"])
        self._backward = measured and (both or one_way and settings["backward_only"])
        if measured and not self._forward and not self._backward:
            monitor.say_once(_native.LOG_WARNING,
                             "forward_only and backward_only are both true: no module is "
                             "watched")
        self._observers = monitor.module_observers
        self.gradients_seen = self._backward or any(observer.wants_gradients
                                                     for observer in self._observers)
        self._names_wanted = bool(self._forward or self._backward or self._observers)
        self._features = LayerFeatures(monitor) if LayerFeatures.wanted(settings) else None
        self._known = {}
        self.active = False
        self.generation = 0

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
        if compiled or isinstance(module, torch.jit.ScriptModule):
            self.monitor.say_once(
                _native.LOG_WARNING, "%s is compiled: what happens inside it cannot be seen"
                % (path or "the model"))
            return True
        return False

    def _make(self, module, name, features, micro_steps):
        key, watched = id(module), self._known
        known = Module(module, lambda _: watched.pop(key, None), name, features, micro_steps)
        if name is None:
            return known
        slot = self.engine.slot
        if self._forward:
            known.slots = (slot(_native.TABLE_ACTV, name + ".input", "actv"),
                           slot(_native.TABLE_ACTV, name + ".output", "actv"))
        if self._backward:
            known.gradient_slots = (slot(_native.TABLE_ACTV_GRAD, name + ".input", "actv_grad"),
                                    slot(_native.TABLE_ACTV_GRAD, name + ".output", "actv_grad"))
        return known

    # ---- in place ----

    @property
    def only(self):
        return self._known

    def start(self):
        self.generation += 1
        if self._features:
            self._features.drop()
        for known in list(self._known.values()):
            known.begin_step()
        if self.active or not self._known:
            return
        self.active = True
        patches.recompute.hold(self)
        ModuleCalls.of(torch.nn.Module).subscribe(self)

    def stop(self):
        if not self.active:
            return
        self.active = False
        patches.recompute.release(self)
        gradients.let_go()
        ModuleCalls.of(torch.nn.Module).unsubscribe(self)

    def before_update(self, watched):
        gradients.settle()

    def finish_step(self):
        gradients.let_go()
        if self._features:
            self._features.finish_step()

    # ---- one call ----

    def before(self, module, args, kwargs):
        """For _intercept.modules."""
        known = self._known[id(module)]
        try:
            return _Call(self, known, module, args, kwargs)
        except Exception as error:
            self.monitor.failed("inputs of %s" % known.name, error)
            return None

    def record_forward(self, known, args, kwargs, output):
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
