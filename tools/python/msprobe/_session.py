"""The one capture of a process: its settings, its steps, and what the hooks of a framework need.

A framework's side (pytorch, mindspore) gives a `Hooks` object; this module decides when they are in
place. Nothing here raises into the training once a step runs: errors are told, recording goes on.
"""
import json
import os

from msprobe import _native
from msprobe._intercept import runtime
from msprobe._intercept.runtime import report

LEVELS_WITH_APIS = ("L1", "mix")
LEVELS_WITH_MODULES = ("L0", "mix")


class Hooks:
    """What a framework does when recording begins and ends. All may be called repeatedly."""

    # Whether gradients of an API's inputs are all that this framework can give.
    gradients_of_inputs = False

    def rank(self):
        """This process's rank, or -1 when it is not known yet."""
        return -1

    def check_model(self, model):
        """Raises when `model` is not what this framework can hook."""

    def tensor_types(self):
        """What counts as a tensor."""
        return ()

    def watch_gradient(self, tensor, on_gradient):
        """Calls on_gradient(gradient) when the gradient of `tensor` is computed, until the handle
        that this gives is removed."""
        return tensor.register_hook(on_gradient)

    def attach(self, session):
        """Once, when the session is open: what the hooks need to know of it."""

    def install(self, session, model, token_range):
        """Puts the hooks in place."""

    def settle(self, session):
        """Recording is about to pause: what is complete is recorded."""

    def pause(self, session):
        """Recording pauses: APIs are as they were; what belongs to the step goes on."""

    def finish_step(self, session):
        """The step ends: what is still under way is recorded or dropped."""

    def flush(self, session):
        """Statistics that were reduced on a device come back."""

    def remove(self, session):
        """Everything is as it was before the first start."""


class Session:
    """The capture of this process."""

    def __init__(self, framework, hooks, config_path, overrides):
        text = _native.open(
            os.fsencode(config_path) if config_path else "",
            json.dumps(overrides) if overrides else "", framework)
        self.settings = json.loads(text)
        self.hooks = hooks
        self.level = self.settings["level"]
        self.task = self.settings["task"]
        self.recording = False
        self.step_open = False
        self.generation = 0
        self.finished = False
        self.model = None
        self.apis_off = False
        self._installed = False
        self.say_once = runtime.Told().once
        self._closed = False
        runtime.at_exit(self.close)
        runtime.after_fork(self._after_fork)

    # ---- states ----

    def switch(self):
        """Tells the extension what is recorded from here on."""
        _native.switch(
            self.recording, self.step_open,
            self.level in LEVELS_WITH_APIS and not self.apis_off,
            self.level in LEVELS_WITH_MODULES,
            self.task == "overflow_check",
            self.hooks.gradients_of_inputs or self.settings.get("api_backward") == "inputs")

    def start(self, model=None, token_range=None):
        if self.level == "debug" or self.finished or self._closed:
            return
        if model is not None:
            self.hooks.check_model(model)
            self.model = model
        if self.model is None and (self.level in LEVELS_WITH_MODULES or token_range is not None):
            raise ValueError("level %s%s needs the model: start(model)" % (
                self.level, " with token_range" if token_range is not None else ""))
        self._check_token_range(token_range)
        if not self._begin_step():
            self.hooks.remove(self)
            self._installed = False
            return
        self.recording = True
        self.switch()
        try:
            self.hooks.install(self, self.model, token_range)
            self._installed = True
        except Exception as error:
            report("start", error)

    def _begin_step(self):
        """Whether the engine records the step that begins or goes on."""
        rank = self.hooks.rank()
        if rank < 0 and self.settings.get("rank") and self.level != "debug":
            self.say_once(_native.LOG_WARNING,
                          "the configuration selects ranks, but this process does not know its "
                          "rank yet: nothing is recorded until its processes have found each other")
        try:
            outcome = _native.start(rank)
        except (RuntimeError, ValueError) as error:
            # The disk's fault or the folder's, not the script's: the training goes on.
            reason = str(error)
            self.say_once(_native.LOG_ERROR, "no capture of this step, and perhaps of later ones: "
                          + reason, subject=reason.rsplit(": ", 1)[-1])
            outcome = _native.START_OFF
        if outcome == _native.START_FINISHED:
            self.finished = True
            self._set_off()
            self.say_once(_native.LOG_INFO, "msprobe ends successfully.")
            return False
        if outcome != _native.START_ON:
            self._set_off()
            return False
        self.step_open = True
        return True

    @staticmethod
    def _check_token_range(token_range):
        if token_range is None:
            return
        if (not isinstance(token_range, (list, tuple)) or len(token_range) != 2
                or not all(isinstance(end, int) and not isinstance(end, bool)
                           for end in token_range)
                or not 0 <= token_range[0] <= token_range[1]):
            raise ValueError("token_range is [first, last] with 0 <= first <= last, not %r"
                             % (token_range,))

    def _set_off(self):
        self.recording = False
        self.step_open = False
        self.switch()

    def stop(self):
        if self.level == "debug" or not self.step_open or self._closed:
            return
        self._quietly("stop", self.hooks.settle, self)
        self.recording = False
        self.switch()
        self._quietly("stop", self.hooks.pause, self)
        self._quietly("stop", self.hooks.flush, self)
        self._quietly("stop", _native.stop)

    def step(self):
        if self._closed:
            return
        if self.step_open:
            self._quietly("step", self.hooks.settle, self)
        self.recording = False
        if self.step_open:
            self._quietly("step", self.hooks.pause, self)
            self._quietly("step", self.hooks.finish_step, self)
            self._quietly("step", self.hooks.flush, self)
        self.step_open = False
        self.switch()
        self.generation += 1
        self._quietly("step", _native.step)

    def set_init_step(self, step):
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise ValueError("the first step is an integer from 0 on, not %r" % (step,))
        _native.set_init_step(step)

    def ready_to_save(self):
        """At level debug: whether save() records in this step. Begins the step when needed."""
        if self.level != "debug" or self.task not in ("tensor", "statistics"):
            return False
        if self.finished or self._closed:
            return False
        if self.step_open:
            return True
        return self._begin_step()

    def _quietly(self, name, function, *args):
        try:
            function(*args)
        except Exception as error:
            report(name, error)

    # ---- the end ----

    def _after_fork(self):
        if self._closed:
            return
        self.recording = False
        self.step_open = False
        self.generation += 1
        _native.after_fork()

    def close(self):
        if self._closed:
            return
        self.finished = True
        self._quietly("close", self.hooks.remove, self)
        if self.step_open:
            self._quietly("close", self.hooks.finish_step, self)
            self._quietly("close", self.hooks.flush, self)
        self._closed = True
        self.recording = False
        self.step_open = False
        _native.close()
