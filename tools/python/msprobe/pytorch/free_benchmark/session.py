"""free_benchmark for PyTorch: what is done with a call, forward and backward."""
import torch

from msprobe._free_benchmark import session
from msprobe._free_benchmark.attempts import Skipped
from msprobe._free_benchmark.preheat import Preheat
from msprobe._free_benchmark.rows import Form
from msprobe._free_benchmark.settings import Settings
from msprobe._free_benchmark.structures import paired
from msprobe._intercept.runtime import own_work
from msprobe.pytorch import distributed, values
from msprobe.pytorch.api_hooks import ApiHooks
from msprobe.pytorch.free_benchmark.backward import Backward
from msprobe.pytorch.free_benchmark.calls import Call, free_memory
from msprobe.pytorch.free_benchmark.comparison import Comparison
from msprobe.pytorch.free_benchmark.perturbation import Perturbation

_LEAST = {torch.float16: 1.002, torch.bfloat16: 1.004}


class FreeBenchmark(session.FreeBenchmark):
    form = Form("pert_mode", rank_of_one="0", says_direction=True)
    rank = staticmethod(distributed.rank)
    free_memory = staticmethod(free_memory)

    def __init__(self, config_path, overrides):
        super().__init__(Settings(config_path, overrides, "pytorch"), ApiHooks())
        self._perturbation = Perturbation(self._settings)
        self._comparison = Comparison(self._settings)
        self._preheat = Preheat(self._settings) if self._settings.preheats else None
        values.configure()

    def tensor_types(self):
        return (torch.Tensor,)

    def step(self):
        if self._preheat is not None:
            self._preheat.next_step()
        super().step()

    # ---- one call ----

    def before(self, function, in_place, args, kwargs):
        return Call(self._settings, function, in_place, args, kwargs)

    def check(self, function, name, call, original, result):
        if self._settings.stage == "forward":
            self._check_forward(function, name, call, original, result)
        else:
            self._check_backward(function, name, call, original, result)

    def _check_forward(self, function, name, call, original, result):
        if self._preheat is not None and self._preheat.counts_only(function):
            return
        call.made()
        perturbed = call.again(original, self._perturbation)
        self._checked += 1
        with own_work(), torch.no_grad():
            if self._settings.handler == "fix":
                if not _replace(result, perturbed):
                    raise Skipped("the second result does not have the form of the first")
                return
            if self._settings.mode == "to_cpu":
                if not self._comparison.with_cpu(result, perturbed):
                    self.unstable_call(function, name, [_OfCpu(result)])
                return
            self._judge(function, name, call, original, result, perturbed)

    def _judge(self, function, name, call, original, result, perturbed):
        first = next((value for value in (result if isinstance(result, (list, tuple)) else [result])
                      if isinstance(value, torch.Tensor)), None)
        dtype = getattr(first, "dtype", None)
        threshold = 0.0 if self._preheat is None else self._preheat.threshold(function, dtype)
        verdicts = self._comparison.by_ratio(result, perturbed, threshold)
        if (self._preheat is not None and verdicts and not call.state.device_moved() and
                self._preheat.samples(function, dtype)):
            ratio = max((verdict.ratio for verdict in verdicts if isinstance(verdict.ratio, float)),
                        default=1.0)
            self._preheat.record(function, dtype, ratio, self._agrees(call, original, result),
                                 _LEAST.get(dtype, 1.0002))
        self.unstable_call(function, name, verdicts)

    def _agrees(self, call, original, result):
        golden = call.again(original, Perturbation(_ToCpu))
        return self._comparison.with_cpu(result, golden)

    def _check_backward(self, function, name, call, original, result):
        call.made()
        if call.writes:
            raise Skipped("gradients of what writes into its arguments are not computed again")
        if not torch.is_grad_enabled():
            return
        generation = self.generation

        def found(backward, gradient, handed):
            if generation == self.generation and self._rows is not None:
                self._attempts.make(name, self._compare_gradients, function, name, backward, gradient, handed)

        Backward(call, original, self._perturbation).watch(result, found)

    def _compare_gradients(self, function, name, backward, gradient, handed):
        both = backward.gradients(gradient, handed)
        if both is None:
            raise Skipped("nothing to change, or its inputs were written since")
        self._checked += 1
        plain, changed, again = both
        verdicts = self._gradients_apart(plain, changed)
        if again is not None and not all(verdict.consistent for verdict in verdicts):
            # What the pass has handed on may have been computed under other circumstances than now.
            verdicts = self._gradients_apart(again(), changed)
        with own_work():
            self.unstable_call(function, name, verdicts)

    def _gradients_apart(self, plain, changed):
        with own_work(), torch.no_grad():
            if self._settings.mode == "to_cpu":
                return [] if self._comparison.with_cpu(plain, changed) else [_OfCpu(plain)]
            return self._comparison.by_ratio(plain, changed)


class _ToCpu:
    """What Perturbation needs to know for samples."""

    mode = "to_cpu"
    noise_ulps = 0
    all_inputs = False


class _OfCpu:
    """A verdict about a result as a whole."""

    consistent = False
    ratio = None
    max_rel = ""
    index = None
    details = None

    def __init__(self, original):
        self.original = original


def _replace(result, perturbed):
    """Puts the second result in the place of the first, unless their forms differ."""
    pairs = []
    if not paired(result, perturbed, torch.Tensor, pairs):
        return False
    for tensor, other in pairs:
        tensor.data = other.to(tensor.dtype).to(tensor.device)
    return True
