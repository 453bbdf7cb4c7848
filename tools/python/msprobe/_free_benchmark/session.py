"""When calls are made twice, what becomes of the verdicts, and what is reported at the end."""
from msprobe import _native
from msprobe._free_benchmark.attempts import NOTHING_TO_CHANGE, Attempts
from msprobe._free_benchmark.rows import Rows
from msprobe._intercept import runtime
from msprobe._intercept.runtime import log
from msprobe._task_session import TaskSession

_SHOWN = 10
# Where not one call could be made in another way.
_OTHER_ADVICE = "no argument could be changed; another pert_mode, such as add_noise with noise_ulps 1, changes others"
_ADVICE = {
    "improve_precision": "it repeats calls with float16 and bfloat16 tensors in float32, and no call had such; "
                         "pert_mode add_noise also checks float32 and float64"}


class FreeBenchmark(TaskSession):
    """Calls are made twice from start to stop. Models are not needed."""

    level = "L1"
    task = "free_benchmark"
    form = None  # of the rows

    def __init__(self, settings, apis):
        super().__init__()
        self._settings = settings
        self.apis = apis
        self._keeps_apis = False
        self._step = 0
        self._rows = None
        self._made = {}  # function: its selected calls in this step
        self._checked = 0
        self._attempts = Attempts("is not checked", self.free_memory)
        self._unstable = {}  # function: [how many calls, largest ratio]
        runtime.at_exit(self.close)
        runtime.after_fork(self._after_fork)

    # ---- what a framework says ----

    @staticmethod
    def rank():
        """This process's rank, or -1 when it is not known."""
        return -1

    @staticmethod
    def free_memory():
        """Memory has run out: what is kept for later use is given back."""

    def can_start(self):
        """Whether calls can be seen now."""
        return True

    def before(self, function, in_place, args, kwargs):
        """What is to be known of a call before it is made."""
        raise NotImplementedError

    def check(self, function, name, call, original, result):
        """Looks at a call once more. Gives what takes the place of its result, or None."""
        raise NotImplementedError

    # ---- what a debugger asks of a session and its hooks ----

    def keep_apis(self, session):
        self._keeps_apis = True
        self.apis.install()

    def start(self, model=None, token_range=None, rank_id=None, scheduled_tokens=None):
        if self.finished:
            return
        if self._step > self._settings.last_step:
            self.close()
            return
        rank = self.rank() if rank_id is None else rank_id
        if (not self._settings.has_step(self._step) or not self._settings.has_rank(rank) or
                not self.can_start()):
            return
        if self._rows is None:
            self._rows = Rows(self._settings, self._step, rank, self.form)
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
        call = self._attempts.make(name, self.before, function, in_place, args, kwargs)
        result = original(*args, **kwargs)
        if call is None:
            return result
        other = self._attempts.make(name, self.check, function, name, call, original, result)
        return result if other is None else other

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

    def unstable_call(self, function, name, verdicts):
        """Writes those of the verdicts that are not consistent. `name`: without its direction."""
        verdicts = [verdict for verdict in verdicts if not verdict.consistent]
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
            word = "UNSTABLE" if calls else "STABLE" if self._checked else "NOTHING CHECKED"
            log(_native.LOG_INFO, "free_benchmark: %s: %d calls checked, %d unstable (%s, %s)" % (
                word, self._checked, calls, self._settings.mode, self._settings.stage))
        ranking = sorted(self._unstable.items(), key=lambda item: (-item[1][1], -item[1][0]))
        for function, (count, ratio) in ranking[:_SHOWN]:
            log(_native.LOG_INFO, "  %s: %d calls, largest ratio %.6g" % (function, count, ratio))
        if len(ranking) > _SHOWN:
            log(_native.LOG_INFO, "  and %d more functions" % (len(ranking) - _SHOWN))
        self._attempts.tell("not checked")
        if self._checked == 0 and any(reason.startswith(NOTHING_TO_CHANGE) for reason in self._attempts.skipped):
            log(_native.LOG_WARNING, "free_benchmark checked nothing: %s" % _ADVICE.get(self._settings.mode, _OTHER_ADVICE))
