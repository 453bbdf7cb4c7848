"""When calls are made twice, what becomes of the verdicts, and what is told at the end."""
import torch

from msprobe import _native
from msprobe._intercept import runtime
from msprobe._intercept.runtime import log, own_work
from msprobe.pytorch import distributed, values
from msprobe.pytorch.api_hooks import ApiHooks
from msprobe.pytorch.free_benchmark.backward import Backward
from msprobe.pytorch.free_benchmark.calls import Attempts, Call, Skipped
from msprobe.pytorch.free_benchmark.comparison import Comparison
from msprobe.pytorch.free_benchmark.perturbation import Perturbation
from msprobe.pytorch.free_benchmark.preheat import Preheat
from msprobe.pytorch.free_benchmark.rows import Rows
from msprobe.pytorch.free_benchmark.settings import Settings

_LEAST = {torch.float16: 1.002, torch.bfloat16: 1.004}
_SHOWN = 10


class FreeBenchmark:
    """A session of PrecisionDebugger in place of a capture. Also what such a session calls its hooks:
    a framework has no others here."""

    level = "L1"
    task = "free_benchmark"

    def __init__(self, config_path, overrides):
        self._settings = Settings(config_path, overrides)
        self.settings = {}
        self.finished = False
        self.generation = 0
        self.model = None
        self.step_open = False
        self.recording = False
        self.apis = ApiHooks()
        self._keeps_apis = False
        self._step = 0
        self._rows = None
        self._perturbation = Perturbation(self._settings)
        self._comparison = Comparison(self._settings)
        self._preheat = Preheat(self._settings) if self._settings.preheats else None
        self._made = {}  # function: its selected calls in this step
        self._checked = 0
        self._attempts = Attempts("is not checked")
        self._unstable = {}  # function: [how many calls, largest ratio]
        values.configure()
        runtime.at_exit(self.close)
        runtime.after_fork(self._after_fork)

    # ---- what a debugger asks of a session and its hooks ----

    def attach(self, session):
        """Nothing more to know."""

    def tensor_types(self):
        return (torch.Tensor,)

    def check_model(self, model):
        """Models are not needed."""

    def ready_to_save(self):
        return False

    def keep_apis(self, session):
        self._keeps_apis = True
        self.apis.install()

    def start(self, model=None, token_range=None, rank_id=None, scheduled_tokens=None):
        if self.finished:
            return
        if self._step > self._settings.last_step:
            self.close()
            return
        rank = distributed.rank() if rank_id is None else rank_id
        if not self._settings.has_step(self._step) or not self._settings.has_rank(rank):
            return
        if self._rows is None:
            self._rows = Rows(self._settings.dump_path, self._step, rank, self._settings.mode,
                              self._settings.stage)
        self.recording = self.step_open = True
        self.apis.install()
        _native.twice(self._call)

    def stop(self):
        if self.recording:
            self.recording = False
            _native.twice(None)
            if not self._keeps_apis:
                self.apis.remove()

    def step(self):
        self.stop()
        self.step_open = False
        self.generation += 1
        if self._rows is not None:
            self._rows.close()
            self._rows = None
        self._made.clear()
        if self._preheat is not None:
            self._preheat.next_step()
        _native.restart_counts()
        self._step += 1

    def set_init_step(self, step):
        self._step = step

    def _after_fork(self):
        self.finished = True
        self.recording = self.step_open = False
        _native.twice(None)

    def close(self):
        if self.finished:
            return
        self.stop()
        self.finished = True
        self.apis.remove()
        if self._rows is not None:
            self._rows.close()
        self._tell()

    # ---- one call ----

    def _call(self, original, name, in_place, args, kwargs):
        """For the extension: makes the call, and looks at it once more."""
        kwargs = {} if kwargs is None else kwargs
        if not self._selects(name):
            return original(*args, **kwargs)
        function = name.rpartition(".")[0]
        call = self._attempts.make(name, Call, self._settings, function, in_place, args, kwargs)
        result = original(*args, **kwargs)
        if call is not None:
            check = self._check_forward if self._settings.stage == "forward" else self._check_backward
            self._attempts.make(name, check, function, name, call, original, result)
        return result

    def _selects(self, name):
        settings = self._settings
        if not settings.selects("%s.%s" % (name, settings.stage)):
            return False
        if settings.every_n_calls == 1 and not settings.max_calls_per_api:
            return True
        function = name.rpartition(".")[0]
        number = self._made.get(function, 0)
        self._made[function] = number + 1
        limit = settings.max_calls_per_api * settings.every_n_calls
        return number % settings.every_n_calls == 0 and (not limit or number < limit)

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
                    self._unstable_call(function, name + ".forward", [_OfCpu(result)])
                return
            self._judge(function, name + ".forward", call, original, result, perturbed)

    def _judge(self, function, name, call, original, result, perturbed):
        first = next((value for value in (result if isinstance(result, (list, tuple)) else [result])
                      if isinstance(value, torch.Tensor)), None)
        dtype = getattr(first, "dtype", None)
        threshold = 0.0 if self._preheat is None else self._preheat.threshold(function, dtype)
        verdicts = self._comparison.by_ratio(result, perturbed, threshold)
        if self._preheat is not None and verdicts and self._preheat.samples(function, dtype):
            ratio = max((verdict.ratio for verdict in verdicts if isinstance(verdict.ratio, float)),
                        default=1.0)
            self._preheat.record(function, dtype, ratio, self._agrees(call, original, result),
                                 _LEAST.get(dtype, 1.0002))
        self._unstable_call(function, name, [verdict for verdict in verdicts if not verdict.consistent])

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

        def found(backward, gradient):
            if generation == self.generation and self._rows is not None:
                self._attempts.make(name, self._compare_gradients, function, name, backward, gradient)

        Backward(call, original, self._perturbation).watch(result, found)

    def _compare_gradients(self, function, name, backward, gradient):
        both = backward.gradients(gradient)
        if both is None:
            raise Skipped("nothing to change, or its inputs were written since")
        self._checked += 1
        with own_work(), torch.no_grad():
            plain, changed = both
            if self._settings.mode == "to_cpu":
                verdicts = [] if self._comparison.with_cpu(plain, changed) else [_OfCpu(plain)]
            else:
                verdicts = self._comparison.by_ratio(plain, changed)
            self._unstable_call(function, name + ".backward",
                                [verdict for verdict in verdicts if not verdict.consistent])

    def _unstable_call(self, function, name, verdicts):
        for verdict in verdicts:
            self._rows.add(name, verdict)
        if verdicts:
            entry = self._unstable.setdefault(function, [0, 1.0])
            entry[0] += 1
            entry[1] = max([entry[1]] + [verdict.ratio for verdict in verdicts
                                         if isinstance(verdict.ratio, float)])

    # ---- the end ----

    def _tell(self):
        calls = sum(count for count, _ in self._unstable.values())
        if self._settings.handler == "fix":
            log(_native.LOG_INFO, "free_benchmark: %d results were replaced" % self._checked)
        else:
            log(_native.LOG_INFO, "free_benchmark (%s, %s): %d calls checked, %d unstable" % (
                self._settings.mode, self._settings.stage, self._checked, calls))
        ranking = sorted(self._unstable.items(), key=lambda item: (-item[1][1], -item[1][0]))
        for function, (count, ratio) in ranking[:_SHOWN]:
            log(_native.LOG_INFO, "  %s: %d calls, largest ratio %.6g" % (function, count, ratio))
        if len(ranking) > _SHOWN:
            log(_native.LOG_INFO, "  and %d more functions" % (len(ranking) - _SHOWN))
        self._attempts.tell("not checked")


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
    if not _paired(result, perturbed, pairs):
        return False
    for tensor, other in pairs:
        tensor.data = other.to(tensor.dtype).to(tensor.device)
    return True


def _paired(result, perturbed, pairs):
    if isinstance(result, torch.Tensor):
        pairs.append((result, perturbed))
        return isinstance(perturbed, torch.Tensor) and result.shape == perturbed.shape
    if isinstance(result, dict):
        return (isinstance(perturbed, dict) and result.keys() == perturbed.keys() and
                all(_paired(value, perturbed[key], pairs) for key, value in result.items()))
    if isinstance(result, (list, tuple)):
        return (isinstance(perturbed, (list, tuple)) and len(result) == len(perturbed) and
                all(_paired(value, other, pairs) for value, other in zip(result, perturbed)))
    return False
