"""The norm by which gradients are clipped: what PyTorch's function returns against the norm of what it was given.

Each gradient counts once. What is known of a clip is kept until the update: a gradient that is divided afterwards by a loss scale was
clipped by the norm of something else. Norms of several processes are compared by who joins their files.
"""
import torch

from msprobe import _native
from msprobe._intercept.runtime import own_work
from msprobe._intercept.slots import over
from msprobe.pytorch.monitor.laws.samples import epsilon, local


def norm_of(gradients, kind):
    """In float64, of what this process holds of them."""
    if kind == float("inf"):
        return max((float(gradient.abs().max()) for gradient in gradients if gradient.numel()), default=0.0)
    if kind == 2.0 and hasattr(torch, "_foreach_norm"):
        by_kind = {}
        for gradient in gradients:
            by_kind.setdefault((gradient.device, gradient.dtype), []).append(gradient)
        squares = 0.0
        for (_, dtype), some in by_kind.items():
            if dtype in (torch.float16, torch.bfloat16):
                some = [gradient.float() for gradient in some]
            squares += float((torch.stack(list(torch._foreach_norm(some))).double() ** 2).sum())
        return squares ** 0.5
    return float(sum(torch.linalg.vector_norm(gradient, kind, dtype=torch.float32).double() ** kind for gradient in gradients)) ** (1 / kind)


class Clip:
    """One call."""

    __slots__ = ("total", "local", "most", "kind", "factor", "sharded", "before", "applied")


class Clipping:
    def __init__(self, laws):
        self._laws = laws
        self._report = laws.report
        self._slots = []
        self.seen = []

    def start(self):
        if self._slots:
            return
        utils = torch.nn.utils
        holder = getattr(utils, "clip_grad", utils)
        original = holder.clip_grad_norm_
        for place in (holder, utils):
            if getattr(place, "clip_grad_norm_", None) is original:
                self._slots.append(over(place, "clip_grad_norm_", self._around))
                if self._slots[-1].replacement is not None and type(self._slots[-1]).__name__ == "InPlace":
                    break   # one function, observed where it is
        for slot in self._slots:
            slot.put()

    def stop(self):
        for slot in self._slots:
            slot.take()
        self._slots = []

    def _around(self, original):
        def clip_grad_norm_(parameters, max_norm, norm_type=2.0, *args, **kwargs):
            if not isinstance(parameters, torch.Tensor):
                parameters = list(parameters)   # a generator is run once
            known = self._guarded(self._before, parameters, norm_type)
            result = original(parameters, max_norm, norm_type, *args, **kwargs)
            if known is not None:
                self._guarded(self._after, known, result, float(max_norm))
            return result

        return clip_grad_norm_

    def _guarded(self, function, *args):
        try:
            with own_work(), torch.no_grad():
                return function(*args)
        except Exception as error:  # training goes on
            self._laws.monitor.failed("laws of clipping", error)
            return None

    def _before(self, parameters, norm_type):
        given = [parameters] if isinstance(parameters, torch.Tensor) else parameters
        held = [parameter for parameter in given if isinstance(parameter, torch.Tensor) and parameter.grad is not None]
        once = list({id(parameter.grad): parameter for parameter in held}.values())
        if not once or any(local(parameter.grad).layout != torch.strided for parameter in once):
            self._report.leave_out("clip_norm", "no gradients, or sparse ones")
            return None
        clip = Clip()
        clip.kind = float(norm_type)
        clip.sharded = any(hasattr(parameter.grad, "_local_tensor") for parameter in once)
        clip.local = norm_of([local(parameter.grad) for parameter in once], clip.kind)
        clip.before = self._laws.factor_now(once)
        counts = {}
        for parameter in held:
            counts[id(parameter)] = (parameter, counts.get(id(parameter), (None, 0))[1] + 1)
        return clip, counts, max(epsilon(local(parameter.grad).dtype) for parameter in once)

    def _after(self, known, result, most):
        clip, counts, unit = known
        held = {id(parameter.grad): parameter.grad for parameter, _ in counts.values() if parameter.grad is not None}
        after = norm_of([local(gradient) for gradient in held.values()], clip.kind) if clip.sharded else 0.0
        clip.applied = after / clip.local if clip.sharded and clip.local else None
        whole = getattr(result, "_local_tensor", None) is not None
        clip.most = most
        clip.total = None if whole else float(result)
        self.seen.append(clip)
        step = self._laws.step
        total = clip.local if clip.total is None else clip.total
        clip.factor = min(1.0, most / (total + 1e-6))
        for parameter, times in counts.values():
            self._laws.incoming.scaled([parameter], clip.factor ** times)
        if clip.sharded or self._laws.has_shards:
            self._report.leave_out("clip_norm", "shards: compared between the ranks")
            return
        if not (clip.local < float("inf") and total < float("inf")):
            self._report.leave_out("clip_norm", "not finite")
            return
        # Squares are added in the gradients' format, norms of half precision are rounded to it, too.
        allowed = (8 * unit + 3e-6) * max(clip.local, total) + 1e-30
        self._report.checked("clip_norm")
        if abs(total - clip.local) > allowed:
            twice = any(times > 1 for _, times in counts.values())
            self._report.broken(step, "clip_norm", "", total, clip.local, "the norm that clips is %.6g, that of the gradients it was given is %.6g%s"
                                % (total, clip.local, ": some of them are in the list twice" if twice else ""))

    def before_update(self, step):
        """What was clipped is what the optimizer is given, not a loss scale times that."""
        seen, self.seen = self.seen, []
        now = self._laws.factors.get(step)
        if not seen or now is None or seen[-1].before is None:
            return seen
        later = now / (seen[-1].before * 1.0) if seen[-1].before else 1.0
        if 0 < later <= 0.125:
            clip = seen[-1]
            self._report.broken(step, "clip_norm", "", clip.local, clip.local * later,
                                "gradients were clipped by a norm of %.6g and multiplied by %.4g afterwards: the clip came before the loss scale "
                                "was taken out" % (clip.local, later))
        return seen


