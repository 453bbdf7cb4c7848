"""PtdbgDispatch: a context in which every operator is also computed on the CPU."""
import collections
import concurrent.futures
import os
import re
import time

import torch

from msprobe import _native
from msprobe._free_benchmark.attempts import is_out_of_memory
from msprobe._intercept import runtime
from msprobe._intercept.runtime import described, log, own_work
from msprobe.pytorch import distributed, values
from msprobe.pytorch.online_dispatch.calls import Call, Skipped, on_host, tensors_of
from msprobe.pytorch.online_dispatch.operators import Operator, known
from msprobe.pytorch.online_dispatch.results import Results, Verdict

try:
    from torch.utils._python_dispatch import TorchDispatchMode
except ImportError:  # before PyTorch 1.12
    TorchDispatchMode = None

_MODES = ("all", "list", "auto", "OFF")
_MOST_LISTED = 1000000
_SHOWN = 10
_WAITING = 4  # calls per worker that wait to be judged


class _Nothing:
    """In place of a mode where PyTorch has none: operators run untouched."""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None


class PtdbgDispatch(TorchDispatchMode or _Nothing):
    """Computes every operator of its block once more on the CPU, in higher precision, and writes whether
    the results agree: by the library's own kernels where it knows the call, else by PyTorch. The
    block's own results are those of the device, bit for bit.

    dump_mode    "all": the tensors of every call are written as .npy, "list": those of the operators
                 in api_list, "auto": those of calls that do not agree, "OFF": none
    dump_path    an existing folder
    api_list     names as in torch.ops.aten
    tag          becomes part of the folder's name
    process_num  calls are judged beside the training, by so many threads; 0: at once
    black_list   names that run untouched, beside those that always do
    """

    def __init__(self, dump_mode="OFF", dump_path=None, api_list=None, debug=False, tag=None,
                 process_num=0, black_list=None):
        super().__init__()
        self._mode = _checked_mode(dump_mode)
        self._listed = _names(api_list, "api_list")
        if self._mode == "list" and not self._listed:
            log(_native.LOG_WARNING, "online_dispatch: dump_mode is list and api_list names no "
                                     "operator: no tensor will be written")
        self._untouched = _names(black_list, "black_list")
        _check_folder(dump_path)
        _check_tag(tag)
        _check_count(process_num)
        if not isinstance(debug, bool):
            raise ValueError("debug is True or False, not %r" % (debug,))
        values.configure()
        self._debug = debug
        self._operators = {}
        self._numbers = collections.Counter()
        self._failed = {}  # name: [calls, largest relative error]
        self._skipped = collections.Counter()
        self._waiting = collections.deque()
        self._workers = (concurrent.futures.ThreadPoolExecutor(process_num) if process_num else None)
        self._most_waiting = process_num * _WAITING
        self._seconds = 0.0
        self._depth = 0
        self._told_of = None  # how many calls were checked and failed when that was reported
        self._told = runtime.Told("online_dispatch: ")
        self.checked = 0
        self.recomputed = 0  # of these, by the library alone: PyTorch ran no operator twice
        self._results = Results(os.fspath(dump_path), tag, max(distributed.rank(), 0))
        runtime.at_exit(runtime.weakly(self.close))
        if TorchDispatchMode is None:
            log(_native.LOG_WARNING, "online_dispatch needs PyTorch 1.12 or newer: operators run "
                                     "untouched")

    # ---- what a script may ask afterwards ----

    @property
    def folder(self):
        """Where the tables are."""
        return self._results.folder

    @property
    def failed(self):
        """{operator: number of calls that do not agree}."""
        return {name: calls for name, (calls, _) in self._failed.items()}

    @property
    def passed(self):
        """Whether something was checked and all of it agrees."""
        return self.checked > 0 and not self._failed

    # ---- the block ----

    def __enter__(self):
        self._depth += 1
        return super().__enter__()

    def __exit__(self, *error):
        result = super().__exit__(*error)
        self._depth -= 1
        if self._depth == 0:
            self._drain(0)
            if self._told_of is None or self._told_of[1] != self._failed_calls():
                self._tell()
        return result

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        operator = self._operators.get(function)
        if operator is None:
            operator = self._operators[function] = Operator(function, self._untouched)
        if not operator.is_checked:
            return function(*args, **kwargs)
        self._numbers[operator.name] += 1
        call = self._quietly(operator, Call, operator, self._numbers[operator.name], function, args,
                             kwargs, self._workers is not None)
        result = function(*args, **kwargs)
        if call is not None:
            self._quietly(operator, self._check, call, result)
        return result

    def _quietly(self, operator, function, *arguments):
        """None where it fails: the training goes on in any case."""
        begin = time.monotonic() if self._debug else 0
        try:
            with own_work(), torch.no_grad():
                return function(*arguments)
        except Exception as error:
            self._skip(operator, error)
            return None
        finally:
            if self._debug:
                self._seconds += time.monotonic() - begin

    def _skip(self, operator, error):
        if isinstance(error, Skipped):
            reason = str(error)
            if error.__cause__ is not None:
                self._told.once(_native.LOG_WARNING, "%s is not checked: %s"
                                % (operator.name, described(error.__cause__)), operator.name)
        elif is_out_of_memory(error):
            reason = "memory ran out"
            if torch.cuda.is_available():
                torch.cuda.empty_cache()
        else:
            reason = "the check failed"
            self._told.once(_native.LOG_WARNING, "%s is not checked: %s"
                            % (operator.name, described(error)), operator.name)
        self._skipped[reason] += 1

    def _check(self, call, result):
        if not any(True for _ in tensors_of(result)):
            return
        if call.operator.is_dropout:  # its random numbers may not move those of the training
            state = torch.get_rng_state()
            try:
                golden = call.golden(list(tensors_of(result)))
            finally:
                torch.set_rng_state(state)
            self._settle(call, self._judge(call, _on_host(result, False), golden))
        elif self._workers is None:
            host = _on_host(result, False)
            self._settle(call, self._judge(call, host, None))
        else:
            # What the training does with its result afterwards does not concern the judge.
            host = _on_host(result, True)
            self._waiting.append((call, self._workers.submit(self._beside, call, host)))
            self._drain(self._most_waiting)

    def _beside(self, call, host):
        with own_work(), torch.no_grad():
            return self._judge(call, host, None)

    def _judge(self, call, host, golden):
        """(verdicts, the device's result, the CPU's, whether PyTorch ran nothing for it)."""
        outputs = list(tensors_of(host))
        if golden is None and call.operator.is_native:
            recomputed = call.recomputed(outputs)
            if recomputed is None:
                call.operator.note_vain()
            else:
                verdicts = self._verdicts(call, outputs, recomputed)
                if all(verdict.passed for verdict in verdicts):
                    return verdicts, host, _in_form_of(host, recomputed), True
                # One reference is not enough to call a result wrong if there is a second one.
                try:
                    golden = call.golden(outputs)
                except Skipped:
                    return verdicts, host, _in_form_of(host, recomputed), True
                judged = self._verdicts(call, outputs, list(tensors_of(golden)))
                if all(verdict.passed for verdict in judged):
                    call.operator.note_vain()
                return judged, host, golden, False
        if golden is None:
            golden = call.golden(outputs)
        return self._verdicts(call, outputs, list(tensors_of(golden))), host, golden, False

    @staticmethod
    def _verdicts(call, outputs, goldens):
        if len(outputs) != len(goldens):
            raise Skipped("results of another form on the CPU")
        name = call.base + "_output.forward.output.%d"
        return [Verdict(name % index, device, cpu, _native.compare_operator(
                    _plain(device), _plain(cpu), call.operator.is_dropout))
                for index, (device, cpu) in enumerate(zip(outputs, goldens))]

    def _settle(self, call, judged):
        verdicts, host, golden, recomputed = judged
        passed = all(verdict.passed for verdict in verdicts)
        if not passed:
            entry = self._failed.setdefault(call.operator.name, [0, 0.0])
            entry[0] += 1
            entry[1] = max([entry[1]] + [verdict.error for verdict in verdicts])
        self._results.add(call.base, verdicts)
        self.checked += 1
        self.recomputed += recomputed
        if self._mode == "all" or (self._mode == "auto" and not passed) or (
                self._mode == "list" and call.operator.name in self._listed):
            self._results.dump(call, host, golden)

    def _drain(self, most):
        while len(self._waiting) > most:
            call, future = self._waiting.popleft()
            self._quietly(call.operator, lambda: self._settle(call, future.result()))

    # ---- the end ----

    def _failed_calls(self):
        return sum(calls for calls, _ in self._failed.values())

    def close(self):
        """Everything is judged and reported; also done when the process ends."""
        self._drain(0)
        if self._told_of is not None and self._told_of[0] != self.checked:
            self._tell()

    def _tell(self):
        failed = self._failed_calls()
        self._told_of = (self.checked, failed)
        log(_native.LOG_INFO, "online_dispatch: %d calls checked, %d do not agree with the CPU: %s"
            % (self.checked, failed, self._results.result_path))
        if self.recomputed:
            log(_native.LOG_INFO, "  %d of them were computed without a second run in PyTorch"
                % self.recomputed)
        ranking = sorted(self._failed.items(), key=lambda item: (-item[1][1], -item[1][0]))
        for name, (calls, error) in ranking[:_SHOWN]:
            log(_native.LOG_INFO, "  %s: %d calls, largest relative error %.3g"
                % (name, calls, error))
        if len(ranking) > _SHOWN:
            log(_native.LOG_INFO, "  and %d more operators" % (len(ranking) - _SHOWN))
        for reason, count in sorted(self._skipped.items()):
            log(_native.LOG_INFO, "  not checked: %d calls (%s)" % (count, reason))
        if self._debug:
            log(_native.LOG_INFO, "  the checks took %.3f s of the training's threads" % self._seconds)


def _on_host(result, copies):
    if isinstance(result, (list, tuple)):
        return type(result)(_on_host(item, copies) for item in result)
    return on_host(result, copies) if isinstance(result, torch.Tensor) else result


def _in_form_of(host, tensors):
    """The tensors in the lists and tuples of a result."""
    remaining = iter(tensors)

    def placed(value):
        if isinstance(value, (list, tuple)):
            return type(value)(placed(item) for item in value)
        return next(remaining) if isinstance(value, torch.Tensor) else value
    return placed(host)


def _plain(tensor):
    """Without lazy conjugates, which are a view's alone."""
    return tensor.resolve_conj().resolve_neg() if tensor.is_complex() else tensor


# ---- arguments ----

def _checked_mode(mode):
    if mode not in _MODES:
        raise ValueError("dump_mode is one of %s, not %r" % (", ".join(_MODES), mode))
    return mode


def _names(names, argument):
    if names is None:
        return frozenset()
    if not isinstance(names, (list, tuple)) or len(names) > _MOST_LISTED or not all(
            isinstance(name, str) for name in names):
        raise ValueError("%s is a list of names of operators, such as [\"mm\", \"softmax\"]"
                         % argument)
    for name in names:
        if not known(name):
            log(_native.LOG_WARNING, "online_dispatch: %s names %s, which torch.ops.aten does not have"
                % (argument, name))
    return frozenset(name for name in names if known(name))


def _check_folder(path):
    if path is None or not os.path.isdir(path):
        raise ValueError("dump_path is an existing folder for the results, not %r" % (path,))


def _check_tag(tag):
    if tag is not None and not (isinstance(tag, str) and re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", tag)):
        raise ValueError("tag is a text of letters, digits, \"_\", \"-\" and \".\", not %r" % (tag,))


def _check_count(count):
    most = max(1, ((os.cpu_count() or 1) + 1) // 4)
    if isinstance(count, bool) or not isinstance(count, int) or not 0 <= count <= most:
        raise ValueError("process_num is an integer from 0 to %d on this machine, not %r"
                         % (most, count))
