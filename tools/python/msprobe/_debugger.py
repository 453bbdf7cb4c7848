"""The face to a training script, as far as it is the same for every framework."""
from msprobe import _native
from msprobe._free_benchmark.settings import task_of
from msprobe._grad_probe import GradProbe, is_wanted as is_grad_probe
from msprobe._intercept.runtime import guarded, log, report
from msprobe._session import Session

_MAX_DEPTH = 50


class Debugger:
    """Records steps as its configuration says. One per process: a second one is the first."""

    _instance = None

    def __new__(cls, *args, **kwargs):
        if cls._instance is None:
            cls._instance = super().__new__(cls)
            cls._instance._session = None
        return cls._instance

    @staticmethod
    def _framework():
        """(name of the framework, its hooks)"""
        raise NotImplementedError

    def _open_with(self, config_path, **given):
        """Opens the capture; what is not None wins over the file."""
        self._open(config_path, {key: value for key, value in given.items() if value is not None})

    @staticmethod
    def _grad_probe(config_path, overrides):
        """The session of the task grad_probe."""
        raise NotImplementedError

    @staticmethod
    def _free_benchmark(config_path, overrides):
        """The session of the task free_benchmark."""
        raise NotImplementedError

    def _open(self, config_path, overrides):
        if task_of(config_path, overrides) == "free_benchmark":
            self._open_other(lambda: self._free_benchmark(config_path, overrides))
            return
        try:
            if is_grad_probe(config_path, overrides):
                self._session = hooks = self._grad_probe(config_path, overrides)
            else:
                framework, hooks = self._framework()
                self._session = self._make_session(framework, hooks, config_path, overrides)
        except Exception:
            type(self)._instance = None
            raise
        self._hooks = hooks
        self._saved = {}
        self._saved_in = -1
        self._started_by_script = False
        hooks.attach(self._session)

    def _make_session(self, *arguments):
        """The capture of (framework, hooks, config_path, overrides)."""
        return Session(*arguments)

    def _open_other(self, session):
        """A session that takes the place of a capture and of its hooks."""
        try:
            self._session = self._hooks = session()
        except Exception:
            type(self)._instance = None
            raise
        self._started_by_script = False

    @classmethod
    def _for_launcher(cls, config_path, overrides):
        """The debugger of a script that does not construct one itself."""
        debugger = cls.__new__(cls)
        if debugger._session is None:
            debugger._open(config_path, overrides)
        return debugger

    @classmethod
    def _existing(cls):
        if cls._instance is None or cls._instance._session is None:
            raise RuntimeError("PrecisionDebugger has not been constructed yet")
        return cls._instance

    # ---- steps ----

    @classmethod
    def start(cls, model=None, token_range=None, rank_id=None, scheduled_tokens=None):
        """Recording begins or goes on. Levels L0 and mix need the model at their first start.
        `rank_id` takes the place of the process group's rank; `scheduled_tokens` ({request id: number
        of tokens}) says whose rows the forward's batch holds, in their order."""
        debugger = cls._existing()
        debugger._started_by_script = True
        debugger._session.start(model, token_range, rank_id, scheduled_tokens)

    @classmethod
    def stop(cls):
        """Recording pauses; the JSON files are written."""
        cls._existing()._session.stop()

    @classmethod
    def forward_backward_dump_end(cls):
        cls.stop()

    @classmethod
    def step(cls):
        """The step is over: files are written, counters begin anew."""
        cls._existing()._session.step()

    @classmethod
    def set_init_step(cls, step):
        session = cls._existing()._session
        if isinstance(step, bool) or not isinstance(step, int) or step < 0:
            raise ValueError("the first step is an integer from 0 on, not %r" % (step,))
        session.set_init_step(step)

    @classmethod
    def monitor(cls, model=None):
        """Task grad_probe: the gradients of this model (MindSpore: of this optimizer) are written before
        each step of an optimizer."""
        session = cls._existing()._session
        if isinstance(session, GradProbe):
            session.monitor(model)
        else:
            log(_native.LOG_WARNING, "monitor() belongs to the task grad_probe: nothing is watched")

    # ---- single values ----

    @classmethod
    def save(cls, variable, name, save_backward=True):
        """Level debug: records a value, and the gradients of its tensors when they are computed."""
        debugger = cls._existing()
        try:
            debugger._save(variable, name, save_backward)
        except Exception as error:  # training goes on
            report(str(name), error)

    def _save(self, variable, name, save_backward):
        session = self._session
        if session.level != "debug":
            return
        problem = _save_problem(variable, name, save_backward, self._hooks.tensor_types())
        if problem:
            log(_native.LOG_WARNING, "save(%r) records nothing: %s" % (name, problem))
            return
        if not session.ready_to_save():
            return
        if self._saved_in != session.generation:
            self._saved_in = session.generation
            self._saved.clear()
        count = self._saved.get(name, 0)
        self._saved[name] = count + 1
        _native.save("%s.%d.debug" % (name, count), variable)
        if not save_backward:
            return
        grad_name = "%s_grad.%d.debug" % (name, count)
        generation = session.generation

        def on_tensor(tensor, ticket):
            @guarded
            def on_gradient(gradient):
                if session.step_open and session.generation == generation:
                    _native.fill_pending(ticket, grad_name, gradient)

            self._hooks.watch_gradient(tensor, on_gradient)

        _native.save_pending(grad_name, variable, on_tensor)

    # ---- functions and modules of the user ----

    @classmethod
    def register_custom_api(cls, module, api_name, api_prefix=None):
        """module.api_name is recorded as {prefix}.{api_name}.{n} from now on."""
        prefix = api_prefix or getattr(module, "__name__", "Custom")
        cls._existing()._hooks.apis.register_custom(module, api_name, prefix)

    @classmethod
    def restore_custom_api(cls, module, api_name):
        cls._existing()._hooks.apis.restore_custom(module, api_name)


def _save_problem(variable, name, save_backward, tensor_types):
    if not isinstance(name, str):
        return "the name is a text"
    if not isinstance(save_backward, bool):
        return "save_backward is True or False"
    return _value_problem(variable, 0, tensor_types + (int, float, str))


def _value_problem(value, depth, leaves):
    if depth > _MAX_DEPTH:
        return "it is nested deeper than %d levels" % _MAX_DEPTH
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            return "keys of a dict are texts"
        items = value.values()
    elif isinstance(value, (list, tuple)):
        items = value
    elif isinstance(value, leaves):
        return None
    else:
        return "%s is not a tensor, number, string, list, tuple or dict" % type(value).__name__
    for item in items:
        problem = _value_problem(item, depth + 1, leaves)
        if problem:
            return problem
    return None
