"""The face to a training script: PrecisionDebugger, module_dump, module_dump_end."""
import torch

from msprobe import _kinds, _native
from msprobe._session import Session, guarded, log, report
from msprobe.pytorch.hooks import TorchHooks

_MAX_DEPTH = 50


class PrecisionDebugger:
    """Records steps as its configuration says. One per process: later constructions give the first."""

    _instance = None

    def __new__(cls, *args, **kwargs):
        if cls._instance is None:
            cls._instance = super().__new__(cls)
            cls._instance._session = None
        return cls._instance

    def __init__(self, config_path=None, task=None, dump_path=None, level=None, model=None,
                 step=None):
        if self._session is not None:
            return
        given = {"task": task, "dump_path": dump_path, "level": level, "step": step}
        self._open(config_path, {key: value for key, value in given.items() if value is not None})
        if model is not None:
            log(_kinds.LOG_WARNING, "the argument model of PrecisionDebugger is out of use: "
                                    "give it to start(model)")
            self._hooks.check_model(model)
            self._session.model = model

    def _open(self, config_path, overrides):
        hooks = TorchHooks()
        try:
            self._session = Session("pytorch", hooks, config_path, overrides)
        except Exception:
            PrecisionDebugger._instance = None
            raise
        self._hooks = hooks
        self._saved = {}
        self._saved_in = -1
        self._started_by_script = False
        hooks.attach(self._session)

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
    def start(cls, model=None, token_range=None):
        """Recording begins or goes on. Levels L0 and mix need the model at their first start."""
        debugger = cls._existing()
        debugger._started_by_script = True
        debugger._session.start(model, token_range)

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
        cls._existing()._session.set_init_step(step)

    @classmethod
    def monitor(cls, model=None):
        """Gradient probes are a task of their own."""
        cls._existing()
        log(_kinds.LOG_WARNING, "monitor() belongs to the task grad_probe, which records nothing here")

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
        problem = _save_problem(variable, name, save_backward)
        if problem:
            log(_kinds.LOG_WARNING, "save(%r) records nothing: %s" % (name, problem))
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

            tensor.register_hook(on_gradient)

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


def _save_problem(variable, name, save_backward):
    if not isinstance(name, str):
        return "the name is a text"
    if not isinstance(save_backward, bool):
        return "save_backward is True or False"
    return _value_problem(variable, 0)


def _value_problem(value, depth):
    if depth > _MAX_DEPTH:
        return "it is nested deeper than %d levels" % _MAX_DEPTH
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            return "keys of a dict are texts"
        items = value.values()
    elif isinstance(value, (list, tuple)):
        items = value
    elif isinstance(value, (torch.Tensor, int, float, str)):
        return None
    else:
        return "%s is no tensor, number, text, list, tuple or dict" % type(value).__name__
    for item in items:
        problem = _value_problem(item, depth + 1)
        if problem:
            return problem
    return None


def module_dump(module, dump_name):
    """From here to module_dump_end only `module` is recorded, as Module.{dump_name}.{class}: not
    its children, no APIs."""
    if not isinstance(module, torch.nn.Module):
        raise TypeError("module_dump takes a torch.nn.Module, not %s" % type(module).__name__)
    if not isinstance(dump_name, str):
        raise TypeError("the name of a module_dump is a text, not %s" % type(dump_name).__name__)
    debugger = PrecisionDebugger._existing()
    session, modules = debugger._session, debugger._hooks.modules
    if modules.add_single(module, dump_name):
        session.apis_off = True
        session.switch()
        modules.install()


def module_dump_end():
    """API calls are recorded again."""
    debugger = PrecisionDebugger._existing()
    session = debugger._session
    debugger._hooks.modules.end_single()
    session.apis_off = False
    session.switch()
