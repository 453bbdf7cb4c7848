"""One call of a module on the reference's inputs."""
import torch

from msprobe._intercept.runtime import own_work
from msprobe.pytorch import graph
from msprobe.pytorch.isolate import judge
from msprobe.pytorch.isolate.reference import paired, with_tensors


class _Edge(torch.autograd.Function):
    """A value in the place of a tensor. gradient(g): what is sent on in the backward pass."""

    @staticmethod
    def forward(ctx, tensor, values, gradient):
        ctx.gradient = gradient
        return values.pop()  # as an argument of its own it would count as returned as it was

    @staticmethod
    def backward(ctx, gradient):
        return ctx.gradient(gradient), None, None


def replaced_edge(tensor, value):
    """`value` in the place of a tensor, to which the gradient goes on."""
    return _Edge.apply(tensor, [value], lambda gradient: gradient)


def _laid_out_as(tensor, value):
    """A value where a tensor is, with its strides: in their order random numbers are drawn."""
    with own_work(), torch.no_grad():
        return torch.empty_like(tensor.detach()).copy_(value)


class Call:
    """For _intercept.modules. `frame`: this call among those that run; `parent`: whose code made the
    inputs."""

    def __init__(self, session, frame, module, number, parent, args, kwargs):
        self._session = session
        self._frame = frame
        self._known = known = frame.known
        self._module = module
        self._name = "%s.forward.%d" % (known.base, number)
        self._parent = parent
        self._inputs = {}  # id: (the training's tensor, what is in its place, its version)
        self._given = args, kwargs  # described inputs are read again for these
        self._floor = None
        self._described = session.reference.call(self._name)
        self._backward = session.reference.call("%s.backward.%d" % (known.base, number)) or {}
        self.args, self.kwargs = args, kwargs
        self._pairs = []
        if self._described is None:
            session.rows.not_judged(known, self._name, "the reference has no such call")
            return
        try:
            paired(args, self._described.get("input_args", []), self._pairs)
            paired(kwargs, self._described.get("input_kwargs", {}), self._pairs)
        except ValueError as reason:
            session.rows.not_judged(known, self._name, "its inputs have another form: %s" % reason)
            self._described = None
            return
        self._replace(args, kwargs)

    def _replace(self, args, kwargs):
        gradients = self._recorded_gradients("output", [tensor for tensor, _ in self._pairs])
        other = {}
        for position, (tensor, described) in enumerate(self._pairs):
            if id(tensor) in other:  # given at several places: its gradient is one, too
                continue
            value = self._session.reference.read(described)
            if value is None:
                continue
            value = _laid_out_as(tensor, value)
            verdict = judge.judge(tensor, value)
            self._session.rows.add(self._parent.known, self._name, "forward",
                                   "what it gives to %s" % self._known.name, verdict,
                                   self._parent.cause)
            if tensor.requires_grad and torch.is_grad_enabled():
                value = _Edge.apply(tensor, [value], self._on_input_gradient(
                    gradients.get(id(tensor)), "gradient of input %d" % position))
            other[id(tensor)] = value
            self._inputs[id(tensor)] = (tensor, value, value._version)
        self.args, self.kwargs = with_tensors(args, other), with_tensors(kwargs, other)

    def _recorded_gradients(self, key, tensors):
        """{id: description} of gradients, which are listed for tensors that need one, or for all."""
        described = self._backward.get(key)
        if not isinstance(described, list):
            return {}
        needing = []
        graph.collect(tensors, needing)
        for listed in (needing, tensors):
            if len(listed) == len(described):
                found = {}
                for tensor, description in zip(listed, described):
                    if isinstance(description, dict) and description.get("shape") == list(tensor.shape):
                        found.setdefault(id(tensor), description)
                return found
        return {}

    # ---- the end of the call ----

    def failed(self):
        self._session.leave(self._frame)

    def after(self, result):
        self._session.leave(self._frame)
        if self._described is None:
            return result
        handed_on = self._session.judged_or_none(self._known, self._name, self._handed_on, result)
        return result if handed_on is None else handed_on

    def _handed_on(self, result):
        session = self._session
        self._tell_what_was_written()
        pairs = []
        try:
            paired(result if isinstance(result, tuple) else (result,),
                   self._described.get("output", []), pairs)
        except ValueError as reason:
            session.rows.not_judged(self._known, self._name, "its results have another form: %s" % reason)
            return result
        self._frame.cause = self._frame.cause or self._changed_parameter()
        gradients = self._recorded_gradients("input", [tensor for tensor, _ in pairs])
        other = {}
        for position, (tensor, described) in enumerate(pairs):
            value = session.reference.read(described)
            if value is None or id(tensor) in other:
                continue
            value = _laid_out_as(tensor, value)
            verdict = judge.judge(tensor, value, self._noise)
            session.rows.add(self._known, self._name, "forward", "output %d" % position, verdict,
                             self._frame.cause)
            if tensor.requires_grad and torch.is_grad_enabled():
                value = _Edge.apply(tensor, [value], self._on_output_gradient(
                    gradients.get(id(tensor)), position))
            other[id(tensor)] = value
        self._inputs.clear()
        self._known.judged += 1
        return with_tensors(result, other)

    def _tell_what_was_written(self):
        """A module that works in place writes to what stands for the training's tensor."""
        with own_work(), torch.no_grad():
            for tensor, value, version in self._inputs.values():
                if value._version != version:
                    tensor.data.copy_(value.detach())

    def _changed_parameter(self):
        """A parameter that is not the reference's: results differ without a fault of the code."""
        session, module = self._session, self._module
        recorded = self._described.get("parameters")
        for name, parameter in module._parameters.items():
            described = recorded.get(name) if isinstance(recorded, dict) and parameter is not None else None
            if isinstance(described, list):
                described = described[0] if described else None
            if described is None or described.get("shape") != list(parameter.shape):
                continue
            value = session.reference.read(described)
            if value is not None and not torch.equal(parameter.detach().cpu(), value):
                return "parameter %s differs" % name
        return ""

    def _noise(self):
        """The floor of this call's results, measured once, on the reference's inputs."""
        if self._floor is None:
            other = {id(tensor): self._session.reference.read(described).to(tensor.device)
                     for tensor, described in self._pairs
                     if described.get("data_name") is not None}
            args, kwargs = (with_tensors(value, other) for value in self._given)
            self._floor = self._session.unseen(judge.noise_of, self._module, args, kwargs)
        return self._floor

    # ---- the backward pass ----

    def _on_input_gradient(self, described, what):
        """What the module's own backward pass made."""
        return _Gradient(self, self._frame, described, what, self._noise)

    def _on_output_gradient(self, described, position):
        """What reaches the module: made by the code around it."""
        return _Gradient(self, self._parent, described,
                         "gradient it gives to output %d of %s" % (position, self._known.name), None)


class _Gradient:
    """Compares a gradient, and gives the reference's in its place."""

    __slots__ = ("_call", "_culprit", "_described", "_what", "_noise", "_passed")

    def __init__(self, call, culprit, described, what, noise):
        self._call = call
        self._culprit = culprit
        self._described = described
        self._what = what
        self._noise = noise
        self._passed = False

    def __call__(self, gradient):
        session = self._call._session
        if torch.is_grad_enabled():
            session.spoil_gradients("gradients are differentiated again (create_graph)")
        elif self._passed:
            session.spoil_gradients("several backward passes go through one call (retain_graph)")
        self._passed = True
        value = session.judged_or_none(self._culprit.known, self._call._name, self._judged, gradient)
        return gradient if value is None else value

    def _judged(self, gradient):
        session = self._call._session
        judged = session.judging and not session.spoiled
        value = session.reference.read(self._described) if judged else None
        if value is None or value.shape != gradient.shape:
            return None
        value = value.to(gradient.device)
        if self._noise is None:  # what reaches the module is what its parameters' gradients sum up
            self._call._known.scale += judge.norm_of(value)
        session.add_gradient(self._culprit.known, self._call._name.replace(".forward.", ".backward."),
                             self._what, judge.judge(gradient, value, self._noise), self._culprit)
        return value.to(gradient.dtype)
