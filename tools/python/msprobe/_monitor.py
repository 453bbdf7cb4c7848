"""The training monitor of one configuration: its engine, its steps, and what collects values.

A framework's side gives collectors; this module decides when they are in place: only in steps that
are measured. Nothing here raises into the training once a model is watched: errors are reported once,
the training goes on.
"""
import json
import os
import weakref

from msprobe import _native
from msprobe._intercept import runtime
from msprobe._intercept.runtime import log

# An optimizer that has not stepped while another one did so often no longer keeps a step open.
_PATIENCE = 16


# For methods of what has a `monitor`: their errors are reported once.
guarded = runtime.guard(
    lambda function, args, error: args[0].monitor.failed(function.__qualname__, error))


class Place:
    """Where this process stands among all; ranks are global."""

    def __init__(self, rank=None, world_size=1, stage=0, mates=None):
        self.distributed = rank is not None
        self.rank = rank or 0
        self.world_size = world_size
        self.stage = stage
        self.mates = mates or [self.rank]
        self.tensor_ranks = None
        self.data_ranks = None


class Collector:
    """One kind of values. `start` and `stop` surround the steps that are measured."""

    def __init__(self, monitor):
        self.monitor = monitor
        self.engine = monitor.engine

    def watch(self, watched):
        """A model and its optimizer are to be watched."""

    def start(self):
        """A step begins that is measured; also called when the step before was."""

    def stop(self):
        """The steps to come are not measured: everything is as it was without us."""

    def before_update(self, watched):
        """In a measured step: the optimizer is about to change parameters."""

    def after_update(self, watched):
        """In a measured step: it has."""

    def finish_step(self):
        """The values of the step are complete but for what is under way."""


class Watched:
    """One model (or its chunks), its optimizer, and what is known of both. Neither is held: what its script drops is dropped, with
    the groups of processes in it, which may have to end before the program does."""

    def __init__(self, models, optimizer, micro_steps, first_stage):
        self._models = [weakref.ref(model, self._model_is_gone) for model in models]
        self._optimizer = weakref.ref(optimizer)
        self.count = len(models)
        self.when_dropped = lambda watched: None  # called when no model is left
        self.micro_steps = micro_steps
        self.first_stage = first_stage
        self.stepped = 0  # times within the step in progress
        self.parameters = []
        self.unhook = lambda: None  # takes our step from the optimizer
        self.update_arguments = ()  # of the step that is about to happen

    @property
    def optimizer(self):
        return self._optimizer()

    @property
    def lives(self):
        return self.optimizer is not None and any(True for _ in self.stages())

    def stages(self):
        for stage, reference in enumerate(self._models, self.first_stage):
            model = reference()
            if model is not None:
                yield stage, model

    def _model_is_gone(self, _):
        if not self.lives:
            self.when_dropped(self)

    def names(self):
        """(parameter, the name it is reported under)"""
        for parameter in self.parameters:
            yield parameter.tensor, parameter.name


# Monitors that have begun and are not closed: a script may drop its monitor.
_open = set()


class Monitor:
    """Base of TrainerMon: the engine, and steps that end when every watched optimizer has stepped.
    """

    def __init__(self, framework, config_path, overrides=None):
        path = os.fsencode(config_path) if config_path else ""
        self.engine = _native.Monitor(path, json.dumps(overrides) if overrides else "", framework)
        self._read_settings()
        self.place = Place()
        self.watched = []
        self.collectors = []
        self.measuring = False
        self.finished = False
        self._begun = False
        self._closed = False
        self._outdated = False  # a model was dropped: collectors are made anew when the step ends
        self.say_once = runtime.Told("monitor: ").once
        # The monitor itself may be dropped by the script; what it measured is written all the same.
        runtime.at_exit(runtime.weakly(self.close))
        runtime.after_fork(runtime.weakly(self._after_fork))

    def _read_settings(self):
        self.settings = json.loads(self.engine.settings())

    # ---- what a framework says ----

    def make_collectors(self):
        """The collectors that the settings ask for."""
        raise NotImplementedError

    def hook_optimizer(self, watched):
        """Makes the optimizer call update_begins and update_ends; returns what takes that back."""
        raise NotImplementedError

    def flush_devices(self):
        """Numbers that were reduced on a device come back."""

    # ---- what scripts read ----

    @property
    def rank(self):
        """This process's global rank; 0 when it is alone."""
        return self.place.rank

    @property
    def tensorboard_dir(self):
        """The folder of this rank's tables."""
        return "" if self._closed else self.engine.output_folder()

    @property
    def unique_id(self):
        """The part of the folder's name that tells runs of one second apart."""
        return os.path.basename(self.tensorboard_dir or "").rpartition("-")[2]

    @property
    def summary_writer(self):
        """What writes the tables."""
        return self.engine

    @property
    def param2name(self):
        """{parameter: the name it is reported under}."""
        return dict(pair for watched in self.watched for pair in watched.names())

    @property
    def optimizer_context(self):
        """{optimizer: what is known of it}."""
        return {watched.optimizer: watched for watched in self.watched if watched.lives}

    # ---- messages ----

    def failed(self, where, error):
        """Something of ours failed; the training goes on."""
        self.say_once(_native.LOG_WARNING,
                      "%s: %s; training continues (reported once)"
                      % (where, runtime.described(error)),
                      subject=(where, type(error).__name__))

    @staticmethod
    def count(name, value, least):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            log(_native.LOG_WARNING, "monitor: %s is an integer from %d on, not %r: %d is taken"
                % (name, least, value, least))
            return least
        return value

    # ---- life ----

    def put_place(self):
        place = self.place
        try:
            self.engine.set_place(place.distributed, place.rank, place.world_size, place.stage,
                                  place.mates, place.tensor_ranks, place.data_ranks)
        except RuntimeError as error:  # the disk's fault or the folder's, not the script's
            log(_native.LOG_ERROR, "monitor: nothing is watched: %s" % error)
            self.close()

    def watch(self, watched, first_step):
        """Adds a model and its optimizer; from here on steps are counted."""
        if self._closed:
            return
        self.watched = [known for known in self.watched if not self._replaces(watched, known)]
        self.watched.append(watched)
        watched.when_dropped = self._let_go
        _open.add(self)
        watched.unhook = self.hook_optimizer(watched)
        if self._begun:
            self._rebuild()
            return
        self._begun = True
        # Values may come while the model is first run: the step begins now.
        state = self.engine.begin(first_step)
        self._build()
        self._apply(state)

    @staticmethod
    def _replaces(watched, known):
        if known.optimizer is not watched.optimizer:
            return False
        known.unhook()
        return True

    def _build(self):
        self.engine.forget_names()
        self.collectors = self.make_collectors()
        for watched in self.watched:
            for collector in self.collectors if watched.lives else ():
                self._quietly(collector.watch, watched)

    def _rebuild(self):
        measuring = self.measuring
        self._stop()
        self._build()
        if measuring:
            self._start()

    def _apply(self, state):
        if state & _native.MONITOR_CHANGED:
            self._stop()
            self._read_settings()
            self._build()
        if state & ~_native.MONITOR_CHANGED == _native.MONITOR_ON:
            self._start()
            return
        self._stop()
        if state & ~_native.MONITOR_CHANGED == _native.MONITOR_FINISHED:
            self._finish()

    def _start(self):
        self.measuring = True
        for collector in self.collectors:
            self._quietly(collector.start)

    def _stop(self):
        self.measuring = False
        for collector in self.collectors:
            self._quietly(collector.stop)

    def _finish(self):
        """No step is measured any more: nothing of ours stays in the script's objects."""
        self.finished = True
        for watched in self.watched:
            self._quietly(watched.unhook)

    def _quietly(self, function, *args):
        try:
            with runtime.own_work():
                return function(*args)
        except Exception as error:
            self.failed(getattr(function, "__qualname__", str(function)), error)
            return None

    # ---- steps ----

    def update_begins(self, watched):
        """The optimizer is about to step."""
        if self.measuring and not self._closed:
            for collector in self.collectors:
                self._quietly(collector.before_update, watched)

    def update_ends(self, watched):
        """The optimizer has stepped."""
        if self._closed or self.finished:
            return
        if self.measuring:
            for collector in self.collectors:
                self._quietly(collector.after_update, watched)
        watched.stepped += 1
        if not all(known.stepped for known in self.watched if known.lives):
            if watched.stepped < _PATIENCE:
                return
            self._leave_behind()
        self._end_step()

    def _leave_behind(self):
        idle = [known for known in self.watched if known.lives and not known.stepped]
        self.say_once(_native.LOG_WARNING,
                      "%d of %d optimizers never step: steps are counted by the others"
                      % (len(idle), len(self.watched)))
        for known in idle:
            self._quietly(known.unhook)
        self.watched = [known for known in self.watched if known not in idle]

    def _end_step(self):
        for watched in self.watched:
            watched.stepped = 0
        if self.measuring:
            for collector in self.collectors:
                self._quietly(collector.finish_step)
            self._quietly(self.flush_devices)
        state = self._quietly(self.engine.end_step)
        if state is not None:
            self._quietly(self._apply, state)
        if self._outdated:
            self._outdated = False
            self._quietly(self._rebuild)

    def _let_go(self, watched):
        """The script has dropped the models. Their parameters are held by the collectors. Called from anywhere."""
        if self._closed or runtime.is_ending():
            return
        self._outdated = True
        before = _native.inside(True)
        _native.inside(before)
        if not before and not any(known.lives for known in self.watched):
            self._outdated = False
            self._quietly(self._rebuild)

    # ---- the end ----

    def _after_fork(self):
        if not self._closed:
            self._closed = True
            _open.discard(self)
            self._stop()
            self.engine.after_fork()

    def close(self):
        """Everything measured is written; nothing of ours stays in place."""
        if self._closed:
            return
        self._stop()
        self._finish()
        self._closed = True
        _open.discard(self)
        self._quietly(self.engine.close)
