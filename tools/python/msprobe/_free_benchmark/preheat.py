"""Thresholds that adapt in the first steps: a few calls are judged against the CPU."""
from msprobe import _native

_FIRST_THRESHOLD = 2.05


class Preheat:
    def __init__(self, settings):
        self._settings = settings
        self._calls = {}  # function: its calls in step 0
        self._thresholds = {}  # (function, dtype): (threshold, whether it adapts)
        self._step = 0
        self._begin_step()

    def _begin_step(self):
        self._numbers = {}
        self._samples = {}  # function: how many this step
        self._records = {}  # (function, dtype): ([ratios that agree with the CPU], [that do not])

    def next_step(self):
        self._step += 1
        self._begin_step()

    def counts_only(self, function):
        """Notes a call. In the first step nothing is compared."""
        self._numbers[function] = self._numbers.get(function, 0) + 1
        if self._step == 0:
            self._calls[function] = self._numbers[function]
        return self._step == 0

    def threshold(self, function, dtype):
        return self._thresholds.get((function, dtype), (_FIRST_THRESHOLD, True))[0]

    def samples(self, function, dtype):
        """Whether the call that was just counted is to be judged against the CPU."""
        settings = self._settings
        return (self._step < settings.preheat_step and self._calls.get(function, 0) > 0 and
                self._thresholds.get((function, dtype), (0, True))[1] and
                _native.preheat_samples(self._numbers[function], self._calls[function],
                                        settings.preheat_step, settings.max_sample, self._step))

    def record(self, function, dtype, ratio, agrees, least):
        settings = self._settings
        records = self._records.setdefault((function, dtype), ([], []))
        records[0 if agrees else 1].append(ratio)
        self._samples[function] = self._samples.get(function, 0) + 1
        wanted = min(-(-self._calls[function] // settings.preheat_step), settings.max_sample)
        if self._samples[function] < wanted:
            return
        for key, (good, bad) in self._records.items():
            if key[0] == function:
                self._thresholds[key] = _native.preheat_adapt(
                    *self._thresholds.get(key, (_FIRST_THRESHOLD, True)), good, bad, least)
