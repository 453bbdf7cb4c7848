"""The monitor of a PyTorch script that knows nothing of msprobe.

Optimizers are noticed when they are made. When a module that is called from outside any module has
parameters of one of them, or of what a framework has put around it, both are watched, from this very
call on. Configuration: MSPROBE_MONITOR_CONFIG and MSPROBE_MONITOR_OVERRIDES.
"""
import json
import os
import weakref

import torch

from msprobe import _native
from msprobe._files import read_text
from msprobe._intercept.runtime import log
from msprobe.pytorch.monitor import wrappers
from msprobe.pytorch.monitor.laws import resume
from msprobe.pytorch.monitor.trainer_mon import TrainerMon
from msprobe.pytorch.watch import ModelWatch

_watch = None


class _Watch(ModelWatch):
    def __init__(self, config_path, overrides, micro_steps):
        super().__init__(None)
        self._config_path = config_path
        self._overrides = overrides
        self._micro_steps = micro_steps
        self._made = []  # optimizers that belong to no watched model yet
        self._looked = {}  # id of a root: how many optimizers there were when it was looked at
        self._resting = False  # every optimizer has its model: calls are not looked at
        self.monitor = None
        # A checkpoint may be read before there is a model to watch.
        self._law_names = _laws(config_path, overrides)
        if self._law_names:
            resume.watch(self._law_names)

    def _counting(self, initialise):
        counting = super()._counting(initialise)

        def noticed(optimizer, *args, **kwargs):
            counting(optimizer, *args, **kwargs)
            self._made.append(weakref.ref(optimizer))
            if self._law_names:
                resume.watch(self._law_names)  # of modules that were imported meanwhile
            if self._resting and not self._done:
                self._resting = False
                self.watch_calls()

        noticed.__wrapped__ = initialise
        return noticed

    def _outermost(self, module):
        if self._done or not self._made or id(module) in self._parts:
            return
        if TrainerMon.made_by_script:  # it knows of msprobe after all
            self._stop_watching()
            return
        if not torch.is_grad_enabled() or not self._is_root(module):
            return
        if self._looked.get(id(module)) == self._optimizers:
            return
        self._looked[id(module)] = self._optimizers
        try:
            self._watch_with_its_optimizers(module)
        except Exception as error:  # the script runs as it would without us
            log(_native.LOG_ERROR, "nothing is watched: %s: %s" % (type(error).__name__, error))
            self._stop_watching()

    def _watch_with_its_optimizers(self, module):
        own = {id(parameter) for parameter in module.parameters()}
        made = [optimizer for optimizer in (reference() for reference in self._made)
                if optimizer is not None]
        # Optimizers inside another one (a wrapper's own) step with it.
        around = wrappers.around([optimizer for optimizer in made
                                  if not _updates_only(optimizer, own)], own)
        inner = {id(optimizer) for _, within in around for optimizer in within}
        found = [wrapper for wrapper, _ in around]
        found += [optimizer for optimizer in made
                  if id(optimizer) not in inner and not own.isdisjoint(_parameters(optimizer))]
        if not found:
            return
        taken = inner | {id(optimizer) for optimizer in found}
        self._made = [reference for reference in self._made
                      if reference() is not None and id(reference()) not in taken]
        if self.monitor is None:
            self.monitor = TrainerMon._for_launcher(self._config_path, self._overrides)
        if not self._made:
            self._resting = True
            self.leave_calls()
        self.monitor.set_monitor(module, found, grad_acc_steps=self._micro_steps)


def _laws(config_path, overrides):
    """The laws that are asked for; the engine checks the names when it reads the configuration."""
    laws = overrides.get("laws") or ()
    if not laws and config_path:
        try:
            laws = ["resume"] if '"laws"' in read_text(config_path) else ()
        except (OSError, ValueError):  # the engine tells
            pass
    return ["resume"] if "all" in laws or "resume" in laws else []


def _parameters(optimizer):
    """{id} of what the optimizer updates."""
    return {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}


def _updates_only(optimizer, own):
    """Whether it updates some of these parameters and no other. Within ZeRO stage 3 it has none between steps."""
    parameters = _parameters(optimizer)
    return bool(parameters) and parameters <= own


def activate():
    """Called once, when PyTorch has been imported in a process that inherited the configuration."""
    global _watch
    if _watch is not None:
        return
    micro_steps = os.environ.get("MSPROBE_MONITOR_MICRO_STEPS", "")
    _watch = _Watch(os.environ.get("MSPROBE_MONITOR_CONFIG", ""),
                    json.loads(os.environ.get("MSPROBE_MONITOR_OVERRIDES") or "{}"),
                    int(micro_steps) if micro_steps.isdigit() else 1)
    _watch.install()
