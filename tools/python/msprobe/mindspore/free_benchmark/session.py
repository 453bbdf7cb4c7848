"""free_benchmark for MindSpore: what is done with a call, forward and backward."""
import mindspore

from msprobe import _native
from msprobe._free_benchmark import session
from msprobe._free_benchmark.attempts import Skipped
from msprobe._free_benchmark.rows import Form
from msprobe._free_benchmark.settings import Settings
from msprobe._free_benchmark.structures import mapped, paired
from msprobe._intercept.runtime import log, own_work, say_once
from msprobe.mindspore import ranks, values
from msprobe.mindspore.api_hooks import ApiHooks, JitCalls, TorchApiHooks
from msprobe.mindspore.free_benchmark.backward import gradients
from msprobe.mindspore.free_benchmark.calls import Call, without_gradients
from msprobe.mindspore.free_benchmark.comparison import Comparison
from msprobe.mindspore.free_benchmark.perturbation import Perturbation, is_floating, tensors_in

# Prefixes of a list's full names, and what the names of calls begin with instead. Longer ones first.
_PREFIXES = (("mindspore.mint.nn.functional.", "MintFunctional."), ("mindspore.mint.", "Mint."),
             ("mindspore.ops.", "Functional."), ("mindspore.Tensor.", "Tensor."))


class _Settings(Settings):
    """With full names of functions ("mindspore.ops.bmm") in its list; other elements are parts of names
    of calls."""

    def __init__(self, config_path, overrides, framework):
        super().__init__(config_path, overrides, framework)
        self._functions = set()
        parts = []
        for name in self.list:
            prefix = next((pair for pair in _PREFIXES if name.startswith(pair[0])), None)
            if prefix is None:
                parts.append(name)
            else:
                self._functions.add(prefix[1] + name[len(prefix[0]):])
        self.list = parts

    def selects(self, name):
        if self._functions and name.rsplit(".", 2)[0] in self._functions:
            return True
        if self._functions and not self.list:
            return False
        return super().selects(name)


def _skip(reason):
    raise Skipped(reason)


class FreeBenchmark(session.FreeBenchmark):
    form = Form("pert_type", rank_of_one="", says_direction=False)
    rank = staticmethod(ranks.rank)

    def __init__(self, config_path, overrides):
        on_torch = values.torch_on_mindspore()
        super().__init__(_Settings(config_path, overrides, "mindtorch" if on_torch else "mindspore"),
                         TorchApiHooks() if on_torch else ApiHooks())
        self._jit = JitCalls()
        # Calls whose gradients are computed when those of the training are: MindSpore cannot do so inside.
        self._later = []
        self._perturbation = Perturbation(self._settings)
        self._comparison = Comparison(self._settings)
        if self._settings.preheats:
            log(_native.LOG_WARNING, "if_preheat has no meaning with MindSpore: thresholds stay as they are")
        values.configure()

    def tensor_types(self):
        return values.tensor_types()

    # ---- on and off ----

    def can_start(self):
        if mindspore.get_context("mode") != mindspore.GRAPH_MODE:
            return True
        say_once(_native.LOG_WARNING, "MindSpore runs static graphs (GRAPH_MODE), whose calls are not "
                 "checked: mindspore.set_context(mode=mindspore.PYNATIVE_MODE)", subject="static")
        return False

    def start(self, *args, **kwargs):
        super().start(*args, **kwargs)
        if self.recording:
            self._jit.put()

    def stop(self):
        super().stop()
        self._jit.take()
        if not values.is_differentiating():
            self._catch_up()

    def step(self):
        self.stop()
        for _, name, _, _ in self._later:
            self._attempts.make(name, _skip, "the step ended before its gradients were computed")
        self._later.clear()
        super().step()

    # ---- one call ----

    def before(self, function, in_place, args, kwargs):
        if function.startswith("Jit."):
            raise Skipped("it is compiled by jit")
        return Call(function, in_place, args, kwargs)

    def check(self, function, name, call, original, result):
        call.made()
        if self._settings.handler == "fix":
            return self._fixed(call, original, result)
        if self._settings.stage == "backward":
            if call.writes:
                raise Skipped("gradients of what writes into its arguments are not computed again")
            if not any(map(is_floating, tensors_in(result))):
                raise Skipped("no result has a gradient")
            if values.is_differentiating():
                call.keep()
                self._later.append((function, name, call, original))
            else:
                self._compare_gradients(function, name, call, original)
            return None
        self._compare(function, name, result, call.again(original, self._perturbation))
        return None

    def _compare_gradients(self, function, name, call, original):
        self._compare(function, name, *gradients(call, original, self._perturbation))

    def _compare(self, function, name, plain, changed):
        self._checked += 1
        with own_work(), without_gradients():
            self.unstable_call(function, name, self._comparison.by_ratio(plain, changed))

    def _catch_up(self):
        later, self._later = self._later, []
        later.reverse()
        while later:
            function, name, call, original = later.pop()
            self._attempts.make(name, self._compare_gradients, function, name, call, original)

    def _fixed(self, call, original, result):
        """The second result, as the first one would have been. Its graph is the second run's."""
        with own_work():
            pairs = []
            again = call.again(original, self._perturbation, gradients=True)
            if not paired(result, again, values.tensor_types(), pairs):
                raise Skipped("the second result does not have the form of the first")
            others = iter(other.astype(tensor.dtype) for tensor, other in pairs)
            self._checked += 1
            return mapped(result, values.tensor_types(), lambda _: next(others))
