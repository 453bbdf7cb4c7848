"""The one capture of a process: its settings, its steps, and what the hooks of a framework need.

A framework's side (pytorch, mindspore) gives a `Hooks` object; this module decides when they are in
place. Nothing here raises into the training once a step runs: errors are reported, recording goes on.
"""
import json
import os
import threading
import weakref

from msprobe import _native
from msprobe._intercept import runtime
from msprobe._intercept.runtime import log, report, tell_launcher
from msprobe._live_config import LiveConfig, differences

LEVELS_WITH_APIS = ("L1", "mix")
LEVELS_WITH_MODULES = ("L0", "mix")
LEVELS_WITH_CALLS = LEVELS_WITH_APIS + ("L2k",)  # what the extension records as calls


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
        """When the session is open, and again when its settings have changed: what the hooks need to
        know of it."""

    def install(self, session, model, token_range):
        """Puts the hooks in place."""

    def settle(self, session):
        """Recording is about to pause: what is complete is recorded."""

    def pause(self, session):
        """Recording pauses: APIs are as they were; what belongs to the step goes on."""

    def finish_step(self, session):
        """The step ends: what is still under way is recorded or dropped."""

    def layout(self, session):
        """The text of layout.json: which part of the model this process holds. None: it is known
        already, or nothing is known."""

    def flush(self, session):
        """Statistics that were reduced on a device come back."""

    def remove(self, session):
        """Everything is as it was before the first start."""


def _batch_problem(scheduled_tokens):
    if not isinstance(scheduled_tokens, dict):
        return "it is a dict of request ids and numbers of tokens, not %s" % (
            type(scheduled_tokens).__name__)
    for request, count in scheduled_tokens.items():
        if not isinstance(request, str):
            return "request ids are texts, not %r" % (request,)
        if isinstance(count, bool) or not isinstance(count, int) or count <= 0:
            return "request %s has %r tokens" % (request, count)
    return None


def _without_switch(settings):
    return {key: value for key, value in settings.items() if key != "dump_enable"}


class Session:
    """The capture of this process."""

    def __init__(self, framework, hooks, config_path, overrides):
        self._overrides = json.dumps(overrides) if overrides else ""
        self._framework = framework
        self._config_path = config_path
        # The launcher chose the level, nothing else did: where there are no modules, it gives way.
        self.level_is_default = False
        self._take(_native.open(os.fsencode(config_path) if config_path else "",
                                self._overrides, framework))
        self.hooks = hooks
        # False while dump_enable says so.
        self.enabled = self.settings.get("dump_enable", True)
        self._live = (LiveConfig(config_path, self._peek)
                      if config_path and "dump_enable" in self.settings else None)
        self._usable = True  # what the file holds now
        self._outdated = False  # other keys than dump_enable have changed
        self.recording = False
        self.step_open = False
        self.generation = 0
        self.finished = False
        self._models = None  # references to those of the last start; whether it was given a list
        self.apis_off = False
        self._installed = False
        self._rank_id = None  # given to start in place of the framework's
        self.say_once = runtime.Told().once
        self._closed = False
        runtime.at_exit(self.close)
        runtime.after_fork(self._after_fork)

    def _take(self, settings):
        self.settings = json.loads(settings)
        self.level = self.settings["level"]
        self.task = self.settings["task"]
        self.has_budget = ("max_overhead_ms" in self.settings
                           or "max_bytes_per_s" in self.settings)

    # ---- settings that change while the program runs ----

    def _peek(self, path):
        return json.loads(_native.settings_of(os.fsencode(path), self._overrides, self._framework))

    def _look_again(self):
        """Takes over what has changed in the file of the configuration: dump_enable at once, all other
        keys between steps."""
        if self._live is None or self._closed:
            return
        if self._live.changed():
            settings = self._live.read()
            self._usable = settings is not None
            if settings is not None:
                was_enabled = self.enabled
                # Without the key, what it said last holds.
                self.enabled = settings.get("dump_enable", self.enabled)
                self._outdated = _without_switch(settings) != _without_switch(self.settings)
                log(_native.LOG_INFO, "the configuration has changed (%s): capture %s %s" % (
                    differences(self.settings, settings),
                    "is" if self.enabled != was_enabled else "stays",
                    "on" if self.enabled else "off"))
                self.settings["dump_enable"] = self.enabled
        if self._outdated and self._usable and not self.step_open:
            self._reopen(self._live.path)

    def _reopen(self, path):
        self._outdated = False
        had_budget = self.has_budget
        try:
            settings = _native.reopen(os.fsencode(path) if path else "", self._overrides,
                                      self._framework)
        except (RuntimeError, ValueError) as error:  # it has changed once more
            log(_native.LOG_WARNING, "the configuration is not taken over: %s" % error)
            return
        self.finished = True
        self._remove_hooks()
        self.finished = False
        self._take(settings)
        self.hooks.attach(self)
        self._close_former(in_background=had_budget)

    def _leave_out_modules(self):
        self._overrides = json.dumps(dict(json.loads(self._overrides or "{}"), level="L1"))
        self._reopen(self._config_path)
        log(_native.LOG_INFO, "start() is given no model: level %s, calls without the modules around "
                              "them" % self.level)

    @staticmethod
    def _close_former(in_background):
        """Files of earlier steps may be on their way still."""
        if in_background:
            threading.Thread(target=_native.close_retired, name="msprobe files").start()
        else:
            _native.close_retired()

    def _remove_hooks(self):
        self._set_off()
        self._quietly("start", self.hooks.remove, self)
        self._installed = False

    # ---- the model ----

    @property
    def model(self):
        """What start was given last, without what its script has dropped since; None: nothing yet. Not held: what is in it, such as a
        group of processes, may have to end before the program does."""
        if self._models is None:
            return None
        references, listed = self._models
        roots = [root for root in (reference() for reference in references) if root is not None]
        return roots[0] if roots and not listed else roots

    @model.setter
    def model(self, model):
        listed = isinstance(model, (list, tuple))
        self._models = [weakref.ref(root) for root in (model if listed else [model])], listed

    # ---- states ----

    def switch(self):
        """Tells the extension what is recorded from here on."""
        _native.switch(
            self.recording, self.step_open,
            self.level in LEVELS_WITH_CALLS and not self.apis_off,
            self.level in LEVELS_WITH_MODULES,
            self.task == "overflow_check" or bool(self.settings.get("bench_path"))
            or self.settings.get("online_run_ut", False),
            self.hooks.gradients_of_inputs or self.settings.get("api_backward") == "inputs",
            self.has_budget)

    def start(self, model=None, token_range=None, rank_id=None, scheduled_tokens=None):
        if self._closed:
            return
        self._quietly("start", self._look_again)
        if self.level == "debug" or self.finished:
            return
        if model is not None:
            self.hooks.check_model(model)
            self.model = model
        if rank_id is not None and (isinstance(rank_id, bool) or not isinstance(rank_id, int)
                                    or rank_id < 0):
            raise ValueError("rank_id is an integer from 0 on, not %r" % (rank_id,))
        if not self.enabled or not self._usable:
            if self._installed and not self.step_open:
                self._remove_hooks()
            return
        self._rank_id = rank_id
        if (self.model is None and self.level_is_default and token_range is None
                and self.level in LEVELS_WITH_MODULES):
            self._leave_out_modules()
        if self.model is None and (self.level in LEVELS_WITH_MODULES or token_range is not None):
            raise ValueError("level %s%s needs the model: start(model)" % (
                self.level, " with token_range" if token_range is not None else ""))
        self._check_token_range(token_range)
        self._tell_batch(scheduled_tokens)
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

    def _tell_batch(self, scheduled_tokens):
        """The requests in the batch of the next forward, in the order of their tokens."""
        if scheduled_tokens is None:
            if self.settings.get("request_id"):
                self.say_once(_native.LOG_WARNING, "request_id is given, but start() does not get the "
                                                   "batch (scheduled_tokens): all of it is recorded")
            return
        problem = _batch_problem(scheduled_tokens)
        if problem:
            self.say_once(_native.LOG_WARNING, "scheduled_tokens is not used, and the whole batch is "
                                               "recorded: " + problem)
            return
        _native.set_batch([(request.encode("utf-8", "backslashreplace"), int(count))
                           for request, count in scheduled_tokens.items()])

    def _begin_step(self):
        """Whether the engine records the step that begins or goes on."""
        rank = self.hooks.rank() if self._rank_id is None else self._rank_id
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
            tell_launcher(reason)
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
        self._quietly("layout", self._tell_layout)
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
            self._quietly("layout", self._tell_layout)
        self.step_open = False
        self.switch()
        self.generation += 1
        self._quietly("step", _native.step)
        self._quietly("step", self._look_again)

    def set_init_step(self, step):
        _native.set_init_step(step)

    def ready_to_save(self):
        """At level debug: whether save() records in this step. Begins the step when needed."""
        if self.level != "debug" or self.task not in ("tensor", "statistics"):
            return False
        if self.finished or self._closed or not self.enabled or not self._usable:
            return False
        if self.step_open:
            return True
        return self._begin_step()

    def _tell_layout(self):
        text = self.hooks.layout(self)
        if text is not None:
            _native.set_layout(text.encode("utf-8", "backslashreplace"))

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
            self._quietly("layout", self._tell_layout)
        self._closed = True
        self.recording = False
        self.step_open = False
        _native.close()
