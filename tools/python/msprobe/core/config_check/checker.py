"""The face to a training script."""
import json
import os

from msprobe._intercept import runtime
from msprobe.core.config_check import notice, program
from msprobe.core.config_check.megatron import Arguments
from msprobe.core.config_check.pack import Pack
from msprobe.core.config_check.features import Inputs, of_parameters
from msprobe.core.config_check.random_calls import RandomCalls, python_functions

_STEPS = 100

_random_calls = RandomCalls()
_arguments = Arguments()
_checkers = []


def _framework(fmk):
    """Its module, which imports it."""
    if fmk == "pytorch":
        from msprobe.core.config_check import pytorch as framework
    elif fmk == "mindspore":
        from msprobe.core.config_check import mindspore as framework
    else:
        raise ValueError("fmk is \"pytorch\" or \"mindspore\", not %r" % (fmk,))
    return framework


def _text(value):
    return json.dumps(value, indent=4)


class ConfigChecker:
    """Records what a training depends on into one zip: at once the environment, the packages and
    the hyperparameters (rank 0); before each of the first `steps` forwards of the model its inputs
    and its parameters; before the first one the calls of random functions so far (rank 0, or every
    rank). `steps=None`: all forwards."""

    def __init__(self, model=None, shell_path=None, output_zip_path="./config_check_pack.zip",
                 fmk="pytorch", steps=_STEPS, random_of_all_ranks=False):
        framework = _framework(fmk)
        if shell_path is not None and not isinstance(shell_path, list):
            raise TypeError("shell_path is a list of launch scripts, not %r" % (shell_path,))
        if not isinstance(output_zip_path, str) or not output_zip_path.endswith(".zip"):
            raise ValueError("output_zip_path is a text that ends with .zip, not %r"
                             % (output_zip_path,))
        if steps is not None and (isinstance(steps, bool) or not isinstance(steps, int)
                                  or steps < 0):
            raise ValueError("steps is a number of forwards, or None for all, not %r" % (steps,))
        self._framework = framework
        self._model = self._checked(model)
        self._steps = steps
        self._random_of_all_ranks = random_of_all_ranks
        self._handle = None
        self._recorded = 0
        self._pack = Pack.at(output_zip_path)
        _checkers.append(self)
        if self._rank() == 0:
            self._collect(fmk, shell_path or [])
        if self._model is not None:
            self._watch()

    @staticmethod
    def apply_patches(fmk="pytorch"):
        """Before anything random happens, the first lines of a script: random functions are known
        apart by where they are called from, and the arguments of Megatron are noticed."""
        framework = _framework(fmk)
        _arguments.install()
        framework.before_replacing()
        _random_calls.install(python_functions())
        _random_calls.install(framework.random_functions())
        framework.after_replacing(_random_calls.replacements())

    @staticmethod
    def compare(bench_zip_path, cmp_zip_path, output_path, fmk="pytorch"):
        """Compares two packs into output_path, as `msprobe config_check -c` does."""
        program.compare(fmk, bench_zip_path, cmp_zip_path, output_path)

    @staticmethod
    def restore():
        """Functions and models are as they were before; everything recorded is in its file."""
        _random_calls.restore()
        _arguments.restore()
        for checker in _checkers:
            checker._stop()
        del _checkers[:]
        Pack.finish_all()

    # ---- once ----

    def _checked(self, model):
        if isinstance(model, (list, tuple)) and model:
            model = model[0]
        if model is not None and not isinstance(model, self._framework.model_type):
            raise TypeError("the model is a %s or a list of them, not %s"
                            % (self._framework.model_word, type(model).__name__))
        return model

    def _rank(self):
        return max(0, self._framework.rank())

    @notice.harmless("environment, packages and hyperparameters")
    def _collect(self, fmk, inputs):
        self._pack.start_afresh()
        dynamic = _arguments.as_json()
        members = program.collect(fmk, [os.fspath(path) for path in inputs],
                                  None if dynamic is None else _text(dynamic))
        for name, data in members.items():
            self._pack.add(name, data)
        self._pack.flush_soon()

    @notice.harmless("the model")
    def _watch(self):
        self._framework.configure()
        if self._steps != 0:
            self._handle = self._framework.watch_calls(self._model, self._before_forward)
            runtime.at_exit(self._tell_if_nothing_was_seen)

    def _tell_if_nothing_was_seen(self):
        if self._recorded == 0 and self._handle is not None:
            notice.once("no forward of the model was seen: if it is wrapped or compiled after "
                        "ConfigChecker(model), give ConfigChecker the result")

    def _stop(self):
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.remove()
        self._model = None

    # ---- before every forward ----

    def _before_forward(self, args, kwargs):
        if self._model is not None:
            self._record(args, kwargs)

    @notice.harmless("a forward")
    def _record(self, args, kwargs):
        if not self._framework.can_look():
            notice.once("forwards that are traced or put into a graph are not recorded")
            return
        pack, rank = self._pack, self._rank()
        step, pack.step = pack.step, pack.step + 1
        self._recorded += 1
        try:
            statistics = self._framework.Statistics()
            inputs = Inputs(statistics).describe(args, kwargs)
            weights = of_parameters(statistics, self._framework.named_parameters(self._model))
            statistics.finish()
            pack.add_dataset(step, rank, _text(inputs))
            pack.add_weights(step, rank, _text({name: features for name, features
                                                in weights.items() if features}))
            if self._recorded == 1:
                self._record_random(rank)
        finally:
            if self._recorded == self._steps:
                notice.info("%d forwards are recorded in %s; later ones are not (steps=...)"
                            % (self._steps, pack.path))
                self._stop()
            pack.flush_soon()

    def _record_random(self, rank):
        # What comes later is not recorded: the training gets its functions back.
        _random_calls.restore()
        if rank == 0 or self._random_of_all_ranks:
            self._pack.add_random(rank, _text(_random_calls.result))
