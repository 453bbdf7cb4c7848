"""The task grad_probe: the gradients of a model before each step of an optimizer.

A framework's side says where parameters and gradients are, and when an optimizer steps. Nothing here
raises into the training once a model is watched: errors are reported once, the training goes on.
"""
import json
import os
import weakref

from msprobe import _native
from msprobe._intercept import runtime
from msprobe._intercept.runtime import described, log, own_work
from msprobe._task_session import TaskSession


def is_wanted(config_path, overrides):
    """Whether the task of a configuration is grad_probe."""
    return _native.is_grad_probe(os.fsencode(config_path) if config_path else "",
                                 json.dumps(overrides) if overrides else "")


class GradProbe(TaskSession):
    """Gradients are looked at before each step of an optimizer. Models come with monitor()."""

    task = "grad_probe"

    def __init__(self, config_path, overrides):
        super().__init__()
        self._probe = _native.grad_probe_open(os.fsencode(config_path) if config_path else "",
                                              json.dumps(overrides) if overrides else "")
        self._wanted = _native.grad_probe_parameters(self._probe)
        self._step = 0
        self._parameters = None
        self.say_once = runtime.Told("grad_probe: ").once
        runtime.at_exit(runtime.weakly(self.close))
        runtime.after_fork(runtime.weakly(self._after_fork))

    # ---- what a framework says ----

    def rank(self):
        """This process's rank, or -1 when it is not known."""
        return -1

    def named_parameters(self, watched):
        """[(name, parameter)] of what was given to monitor(); TypeError for anything else."""
        raise NotImplementedError

    def gradient(self, parameter, given):
        """The gradient on the host that an optimizer is about to use, or None. `given`: what
        before_step received."""
        raise NotImplementedError

    def put_hooks(self, watched):
        """From here on before_step is called before each step of an optimizer."""
        raise NotImplementedError

    def take_hooks(self):
        """Everything is as it was without us."""

    # ---- what a debugger asks of a session and its hooks ----

    def start(self, *_, **__):
        """Steps are those of the optimizers: a script need not say when they begin."""

    def step(self):
        """The same for their end."""

    def stop(self):
        """All files of the steps so far are there."""
        if not self.finished:
            self._quietly("files", _native.grad_probe_flush, self._probe)

    def set_init_step(self, step):
        self._step = step

    def monitor(self, watched):
        """Gradients are written from the next step of an optimizer on."""
        if self.finished:
            return
        named = list(self.named_parameters(watched))
        if self._wanted:
            known = {name for name, _ in named}
            for name in self._wanted:
                if name not in known:
                    log(_native.LOG_WARNING, "grad_probe: param_list names %s, which the model does "
                                            "not have" % name)
            wanted = set(self._wanted)
            named = [(name, parameter) for name, parameter in named if name in wanted]
        if not named:
            log(_native.LOG_WARNING, "grad_probe: no parameter is watched: nothing will be written")
        self.take_hooks()
        # Not held: a model that its script drops is dropped.
        self._parameters = [(name, weakref.ref(parameter)) for name, parameter in named]
        self.put_hooks(watched)

    # ---- steps ----

    def before_step(self, given=None):
        """An optimizer is about to step."""
        if self.finished:
            return
        step, self._step = self._step, self._step + 1
        with own_work():
            try:
                outcome = _native.grad_probe_begin(self._probe, self.rank(), step)
            except Exception as error:
                self.say_once(_native.LOG_WARNING, "steps are not written: %s" % error,
                              subject="begin")
                return
            if outcome == _native.START_FINISHED:
                self.close()
            elif outcome == _native.START_ON:
                for name, reference in self._parameters:
                    parameter = reference()
                    if parameter is not None:
                        self._quietly(name, self._put, name, parameter, given)
                self._quietly("files", _native.grad_probe_end, self._probe)

    def _put(self, name, parameter, given):
        gradient = self.gradient(parameter, given)
        if gradient is None:
            self.say_once(_native.LOG_INFO, "%s has no gradient in some step: no row" % name)
        else:
            _native.grad_probe_put(self._probe, name, gradient)

    def _quietly(self, subject, function, *arguments):
        try:
            function(*arguments)
        except Exception as error:  # training goes on
            text = str(error) if isinstance(error, RuntimeError) else described(error)
            self.say_once(_native.LOG_WARNING, "%s: %s; training continues (reported once)"
                          % (subject, text), subject=subject)

    # ---- the end ----

    def _after_fork(self):
        if not self.finished:
            self.finished = True
            self.take_hooks()
            _native.grad_probe_after_fork(self._probe)

    def close(self):
        """All files are there, nothing of ours stays in place."""
        if self.finished:
            return
        self.finished = True
        self.take_hooks()
        self._quietly("files", _native.grad_probe_flush, self._probe)
