"""What holds in every correct training, checked beside it: the collector that knows the models, their optimizers and what was seen.

Laws of one process are judged here, in the step or at the next one. What ranks have to compare is written as a few numbers for each
parameter and step (ranks.py): no collective is added, whoever reads the files joins them.
"""
import torch

from msprobe import _monitor
from msprobe._intercept import optimizer_steps
from msprobe.pytorch import distributed
from msprobe.pytorch.monitor.laws import resume
from msprobe.pytorch.monitor.laws.clipping import Clipping
from msprobe.pytorch.monitor.laws.incoming import Incoming
from msprobe.pytorch.monitor.laws.models import Frozen, Tied
from msprobe.pytorch.monitor.laws.ranks import RankFile
from msprobe.pytorch.monitor.laws.replay import Replay
from msprobe.pytorch.monitor.laws.report import Report, plain_name
from msprobe.pytorch.monitor.laws.samples import picked
from msprobe.pytorch.monitor.laws.steps import Step, members


class Laws(_monitor.Collector):
    def __init__(self, monitor):
        super().__init__(monitor)
        if getattr(monitor, "laws_report", None) is None:
            monitor.laws_report = Report(monitor)
        self.report = monitor.laws_report
        self.alone = distributed.world_size() <= 1
        self.has_shards = False
        self.incoming = Incoming(monitor, True, self.alone)
        self.clipping = Clipping(self)
        self.named = {}
        self.frozen = Frozen(self, self.named)
        self.tied = Tied(self)
        self.factors = {}
        self.was_loaded = False
        self._steps = {}
        self._hooks = []
        self._active = False
        self._earlier = {}
        self.ranks = RankFile(self)
        self.replay = Replay(self)
        self.resume = resume.watch(self.report.laws)
        self._stepped = set()
        self._places = None

    @staticmethod
    def wanted(settings):
        return bool(settings.get("laws"))

    @property
    def step(self):
        return self.engine.current_step()

    # ---- what is watched ----

    def watch(self, watched):
        self.incoming._main = watched.main_gradients
        for stage, model in watched.stages():
            self.has_shards = self.has_shards or any("FullyShardedDataParallel" in type(module).__name__ for module in model.modules())
            prefix = "" if watched.count == 1 and stage == watched.first_stage else "%d." % stage
            for name, tensor in model.named_parameters():
                self.named.setdefault(id(tensor), (tensor, prefix + plain_name(name)))
                self.has_shards = self.has_shards or hasattr(tensor, "_local_tensor")
            self.frozen.watch(model)
            self.tied.watch(model, plain_name)
            self.replay.watch(model)
            self.ranks.watch(model)
        if not self.has_shards or all(hasattr(tensor, "_local_tensor") for tensor, _ in self.named.values()):
            self.incoming.watch(self.named.values())
        own = watched.optimizer
        for inner in members(own):
            if id(inner) not in self._steps:
                self._steps[id(inner)] = (watched, inner is own, Step(self, inner, self.named))

    def start(self):
        if self._active:
            return
        self._active = True
        self.incoming.start()
        if self.report.wants("clip_norm"):
            self.clipping.start()
        self.ranks.start()
        self.replay.start()
        for _, is_own, part in self._steps.values():
            self.monitor._quietly(part.look)
            for parameter, _place in part._links:
                if id(parameter) in self.incoming.slots:
                    self.incoming.slots[id(parameter)].by_hand = True
            if not is_own:
                self._hooks.append(_Inner(self, part))

    def stop(self):
        if self._active:
            self._active = False
            self.incoming.stop()
            self.clipping.stop()
            self.ranks.stop()
            self.replay.stop()
            for hook in self._hooks:
                hook.remove()
            self._hooks = []
        self.monitor._quietly(self.report.write)

    # ---- around a step ----

    def before_update(self, watched):
        with torch.no_grad():
            self.incoming.finish()
            if not self._stepped:
                self.frozen.before(self.step)
                if self.report.wants("tied"):
                    self.tied.check(self.step)
                self.resume.compare(self)
        for owner, is_own, part in self._steps.values():
            if owner is watched and is_own:
                self.inner_begins(part)

    def inner_begins(self, part):
        with torch.no_grad():
            if self.report.wants("zeroed"):
                self._check_zeroed(part)
            part.before(self.step)
            if self.report.wants("tied") and part.owned:
                self.tied.learn(self.step, part)
            clips = self.clipping.before_update(self.step)
            self.ranks.before(self.step, part, clips)
            self.replay.before(self.step, part)

    def after_update(self, watched):
        for owner, is_own, part in self._steps.values():
            if owner is watched and is_own:
                self.inner_ends(part)
        self._stepped.add(id(watched))
        with torch.no_grad():
            self.frozen.after(self.step)

    def inner_ends(self, part):
        with torch.no_grad():
            part.after(self.step)
            self.ranks.after(self.step, part)
            self.replay.after(self.step, part)
            self.incoming.step_ends(part.owned + [parameter for parameter, _ in part._links])
        if part.owned and part.rows is not None:
            self._earlier = {id(tensor): part.rows.part(part.values_before, index) for index, tensor in enumerate(part.owned)} \
                if len(self._steps) == 1 else {}

    def finish_step(self):
        self._stepped.clear()
        self.was_loaded = self.resume.take_loaded()
        self.factors = {}
        self._places = None
        self.ranks.step_ends(self.step)
        self.report.step_ends()

    # ---- for the laws ----

    def earlier(self, tensor):
        """Values before the last step, where a moving average may have been taken of them."""
        found = self._earlier.get(id(tensor))
        return [] if found is None else [found]

    def owned(self):
        """{id} of all that an optimizer updates, whatever it is part of."""
        return {id(tensor) for _, _, part in self._steps.values() for tensor in part.owned}

    def addresses(self):
        """Where parameters lie: that these are exchanged does not mean that gradients are."""
        if self._places is None:
            self._places = {tensor.data_ptr() for tensor, _ in self.named.values() if not hasattr(tensor, "_local_tensor")}
        return self._places

    def note_factor(self, step, factor):
        self.factors[step] = factor

    def factor_now(self, parameters):
        """What is held over what was accumulated, of the first that tells."""
        for parameter in parameters:
            slot = self.incoming.slots.get(id(parameter))
            if slot is None or not self.alone:
                continue
            self.incoming._commit(slot, parameter.grad)
            if slot.total is not None:
                sum_ = slot.total.double().cpu()
                square = float((sum_ * sum_).sum())
                if square > 0:
                    return float((picked(parameter.grad).double().cpu() * sum_).sum()) / square
        return None

    def _check_zeroed(self, part):
        tensors = [tensor for group in part.optimizer.param_groups for tensor in group["params"]]
        tensors += [parameter for parameter, _ in part._links]
        checked = 0
        for tensor in tensors:
            slot = self.incoming.slots.get(id(tensor))
            if slot is None or not slot.started or not slot.known:
                continue
            checked += 1
            if slot.stale is not None:
                left = float(slot.stale.double().norm())
                self.report.broken(self.step, "zeroed", slot.name, left, 0.0,
                                   "the gradient of the step before was still there when this one was added to it")
        self.report.checked("zeroed", checked)
        if tensors and not checked:
            self.report.leave_out("zeroed", "the first step, or gradients that autograd does not accumulate")


class _Inner:
    """The step of an optimizer inside of a framework's."""

    def __init__(self, laws, part):
        self._laws = laws
        self._part = part
        self._steps = optimizer_steps._Steps.of(part.optimizer, "step")
        self._steps.add(self)

    def wants_begin(self):
        return self._laws._active

    def begin(self, args):
        self._laws.monitor._quietly(self._laws.inner_begins, self._part)

    def end(self):
        self._laws.monitor._quietly(self._laws.inner_ends, self._part)

    def remove(self):
        self._steps.remove(self)


