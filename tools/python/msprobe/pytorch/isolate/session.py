"""One step on the reference's values; everything is as it was afterwards."""
import os

import torch

from msprobe import _native
from msprobe._intercept import runtime
from msprobe._intercept.modules import ModuleCalls
from msprobe._intercept.runtime import described, log, own_work, say_once
from msprobe._task_session import TaskSession
from msprobe.pytorch import distributed, values
from msprobe.pytorch.api_hooks import ApiHooks
from msprobe.pytorch.free_benchmark.calls import RandomState
from msprobe.pytorch.isolate import judge
from msprobe.pytorch.isolate.calls import Call
from msprobe.pytorch.isolate.reference import Dump
from msprobe.pytorch.isolate.rows import Rows

_SHOWN = 20


class Known:
    """A module of the model under the name that dumps give it."""

    __slots__ = ("name", "kind", "base", "calls", "judged", "scale")

    def __init__(self, name, kind):
        self.name = name
        self.kind = kind
        self.base = "Module.%s.%s" % (name, kind)
        self.calls = 0
        self.judged = 0  # of its calls, those that ran on the reference's values
        self.scale = 0.0  # of the gradients that reached its results

    def next_call(self):
        self.calls += 1
        return self.calls - 1


class Frame:
    """A call that runs. `cause`: why its results may differ without a fault of its code. Whether its
    own code draws random numbers shows between the calls inside it."""

    __slots__ = ("known", "cause", "mark")

    def __init__(self, known, mark):
        self.known = known
        self.cause = ""
        self.mark = mark

    def look(self, mark):
        if self.mark is not None and not all(map(torch.equal, self.mark, mark)):
            self.cause = "random"
        self.mark = mark


class Isolation(TaskSession):
    """One step runs on the values of a reference. Calls of functions are not looked at."""

    level = "L0"
    task = "isolate"

    def __init__(self, reference, output, step=None):
        super().__init__()
        self._dump = Dump(reference)
        self._wanted = self._dump.steps()[0] if step is None else step
        if self._wanted not in self._dump.steps():
            raise ValueError("the reference %s has no step %s, but %s" % (
                reference, step, ", ".join(map(str, self._dump.steps()))))
        self._output = output
        self.apis = ApiHooks()
        self._step = 0
        self.only = {}  # id: Known, of the model's modules
        self._inside = []  # frames, outermost first; the first one is the model itself
        self._unseen = False
        self.judging = False
        self.spoiled = ""  # why no gradient of the step can be judged
        self._gradients = []  # passed to rows.add when the step has ended
        self._before = None
        self._handles, self._watched = [], []
        self.reference = None
        self.rows = None
        values.configure()
        runtime.at_exit(self.close)
        runtime.after_fork(self._after_fork)

    # ---- what a debugger asks of a session and its hooks ----

    def tensor_types(self):
        return (torch.Tensor,)

    def check_model(self, model):
        for root in model if isinstance(model, (list, tuple)) else [model]:
            if not isinstance(root, torch.nn.Module):
                raise TypeError("start takes a torch.nn.Module, not %s" % type(root).__name__)

    def start(self, model=None, token_range=None, rank_id=None, scheduled_tokens=None):
        if self.finished:
            return
        if model is not None:
            self.check_model(model)
            self.model = model
        if self._step != self._wanted or self.judging:
            return
        if self.model is None:
            raise ValueError("isolate needs the model: start(model)")
        rank = distributed.rank() if rank_id is None else rank_id
        try:
            self.reference = self._dump.step(self._step, rank)
            self.rows = Rows(os.path.join(self._output, "step%d" % self._step,
                                          "rank" if rank < 0 else "rank%d" % rank), rank, self._step)
        except (OSError, ValueError) as error:  # the training goes on
            self.finished = True
            log(_native.LOG_ERROR, "isolate: nothing is judged: %s" % error)
            return
        self._name_modules()
        self._before = self._state()
        self.judging = self.step_open = self.recording = True
        self._watch_parameters()
        ModuleCalls.of(torch.nn.Module).subscribe(self)

    def stop(self):
        """The step goes on until step(): gradients may still come."""

    def step(self):
        self.generation += 1
        if self.judging:
            self._finish(complete=True)
        self._step += 1

    def set_init_step(self, step):
        self._step = step

    def _after_fork(self):
        self.finished = True
        self.judging = self.step_open = self.recording = False

    def close(self):
        if self.finished:
            return
        if self.judging:
            self._finish(complete=False)
        elif self.rows is None and self.model is not None:  # else a process that starts others
            log(_native.LOG_WARNING, "isolate: the script ended before step %d of the reference"
                % self._wanted)
        self.finished = True

    # ---- the model ----

    def _name_modules(self):
        listed = isinstance(self.model, (list, tuple))
        roots = list(self.model) if listed else [self.model]
        self._inside = [Frame(Known("the model", type(getattr(roots[0], "_orig_mod", roots[0])).__name__), None)]
        self._devices = {parameter.device for root in roots for parameter in root.parameters()
                         if parameter.device.type != "cpu"}
        for index, root in enumerate(roots):
            for path, module in root.named_modules():
                kind = type(getattr(module, "_orig_mod", module)).__name__
                if path:
                    self.only.setdefault(id(module), Known(("%d." % index if listed else "") + path, kind))
        self._by_name = {known.name: known for known in self.only.values()}
        self._modules = [(known, module) for root in roots for module in root.modules()
                         for known in [self.only.get(id(module))] if known is not None]

    def _state(self):
        roots = self.model if isinstance(self.model, (list, tuple)) else [self.model]
        with own_work(), torch.no_grad():
            kept = [(tensor, tensor.detach().clone()) for root in roots
                    for tensor in list(root.parameters()) + list(root.buffers())]
            return kept, RandomState([tensor for tensor, _ in kept])

    def _put_back(self):
        kept, random = self._before
        with own_work(), torch.no_grad():
            for tensor, value in kept:
                tensor.data.copy_(value)
            random.put()
        self._before = None

    def uses_reference(self, known):
        """Whether gradients of a module's own parameters come from the reference's values alone: where
        a module is not called itself, what it is in uses them."""
        while known is not None and not known.calls:
            known = self._by_name.get(known.name.rpartition(".")[0])
        return known if known is not None and known.judged == known.calls else None

    def _watch_parameters(self):
        """Their gradients are judged as they come: clipping and scaling are not the module's."""
        for known, module in self._modules:
            described = self.reference.call("Module.%s.%s.parameters_grad" % (known.name, known.kind))
            if not described:
                continue
            for name, parameter in module._parameters.items():
                entry = described.get(name)
                entry = entry[0] if isinstance(entry, list) and entry else entry
                if parameter is not None and parameter.requires_grad and isinstance(entry, dict):
                    watched = _ParameterGradient(self, known, name, parameter, entry)
                    self._watched.append(watched)
                    self._handles.append(parameter.register_hook(watched))

    def spoil_gradients(self, why):
        """The reference has the gradients of the last pass alone, and what is put in their place has
        no graph: from here on they pass as they are, and none of the step is judged."""
        self.spoiled = self.spoiled or why

    def add_gradient(self, known, call, what, verdict, culprit=None):
        self._gradients.append((known, call, what, verdict, culprit))

    def _write_gradients(self):
        gradients, self._gradients = self._gradients, []
        if self.spoiled:
            for known, call in dict.fromkeys(row[:2] for row in gradients):
                self.rows.not_judged(known, call, self.spoiled, "backward")
            return
        for known, call, what, verdict, culprit in gradients:
            self.rows.add(known, call, "backward", what, verdict, culprit.cause if culprit else "")

    def _finish(self, complete):
        ModuleCalls.of(torch.nn.Module).unsubscribe(self)
        self.judging = self.step_open = self.recording = False
        for handle in self._handles:
            handle.remove()
        for watched in self._watched:
            watched.judge_safely()
        self._write_gradients()
        self._handles, self._watched = [], []
        self._put_back()
        if complete:
            self.rows.close()
            self._tell()
        else:
            log(_native.LOG_WARNING, "isolate: the script ended within the step: %s is not complete"
                % self.rows.path)
        self.finished = True

    def _tell(self):
        guilty = sorted(self.rows.guilty)
        log(_native.LOG_INFO, "isolate: %d comparisons, %s: %s" % (
            self.rows.judged,
            "%d modules wrong by themselves" % len(guilty) if guilty else "no module wrong by itself",
            os.path.normpath(self.rows.path)))
        for name in guilty[:_SHOWN]:
            log(_native.LOG_INFO, "  " + name)

    # ---- calls ----

    def before(self, module, args, kwargs):
        """For _intercept.modules."""
        if self._unseen or not self.judging:
            return None
        known = self.only[id(module)]
        number = known.next_call()
        parent = self._inside[-1]
        mark = self._random_numbers()
        parent.look(mark)
        frame = Frame(known, mark)
        call = self.judged_or_none(known, "%s.forward.%d" % (known.base, number), Call, self, frame, module,
                            number, parent, args, kwargs)
        if call is not None:
            self._inside.append(frame)
        return call

    def leave(self, frame):
        mark = self._random_numbers()
        frame.look(mark)
        while len(self._inside) > 1 and self._inside.pop() is not frame:
            pass
        self._inside[-1].mark = mark

    def _random_numbers(self):
        """The state of all generators."""
        return [torch.get_rng_state()] + [getattr(torch, device.type).get_rng_state(device)
                                          for device in self._devices]

    def unseen(self, function, *arguments):
        """Calls of modules in function() are none of the training."""
        self._unseen = True
        try:
            return function(*arguments)
        finally:
            self._unseen = False

    def judged_or_none(self, known, call, function, *arguments):
        """None where it fails; the training goes on in any case."""
        try:
            return function(*arguments)
        except Exception as error:
            say_once(_native.LOG_WARNING, "isolate: %s is not judged: %s" % (call, described(error)))
            if self.judging:
                self.rows.not_judged(known, call, str(error))
            return None


class _ParameterGradient:
    """The sum of what reaches one parameter in the step, added to what was there."""

    def __init__(self, session, known, name, parameter, described):
        self._session = session
        self._known = known
        self._name = name
        self._described = described
        self._parameter = parameter
        self._sum = None
        self._came = False

    def __call__(self, gradient):
        self._session.judged_or_none(self._known, self._known.base, self._add, gradient)

    def judge_safely(self):
        self._session.judged_or_none(self._known, self._known.base, self._judge)

    def _add(self, gradient):
        with own_work(), torch.no_grad():
            gradient = gradient.detach()
            if not self._came:  # a script may set them to zero as late as this
                self._sum = self._parameter.grad
            self._sum = gradient.clone() if self._sum is None else self._sum.detach() + gradient
        self._came = True

    def _judge(self):
        user = self._session.uses_reference(self._known) if self._came else None
        value = None if user is None else self._session.reference.read(self._described)
        if value is None or value.shape != self._sum.shape:
            return
        self._session.add_gradient(user, self._known.base + ".parameters_grad",
                                   "gradient of %s" % self._name,
                                   judge.judge(self._sum, value.to(self._sum.device),
                                               scale=self._known.scale))
