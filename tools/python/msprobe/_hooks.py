"""What the hooks of all frameworks do alike when recording begins and ends."""
from msprobe import _native
from msprobe._intercept.collectives import PendingOutputs
from msprobe._session import LEVELS_WITH_APIS, LEVELS_WITH_MODULES, Hooks


class ApiBackward:
    """One backward of a function, recorded in the step of its forward."""

    __slots__ = ("_session", "_generation", "_name")

    def __init__(self, session, name):
        self._session = session
        self._generation = session.generation
        self._name = name

    def begin(self):
        """Nothing is reported before its gradients are there."""

    def end(self, of_outputs, of_inputs):
        if self._session.step_open and self._session.generation == self._generation:
            _native.api_backward(self._name, of_outputs, of_inputs)


class CommonHooks(Hooks):
    """Functions, modules and collectives under way. `modules` is set by the subclass's attach."""

    module_type = None  # the class of a model
    module_word = ""  # what messages call it

    def __init__(self, apis):
        self.apis = apis
        self.modules = None
        self.pending = PendingOutputs()
        self._keeps_apis = False
        self._session = None

    def attach(self, session):
        self._session = session

    def check_model(self, model):
        models = model if isinstance(model, (list, tuple)) else [model]
        if not models or not all(isinstance(item, self.module_type) for item in models):
            raise TypeError("the model is a %s or a list of them, not %s"
                            % (self.module_word, type(model).__name__))

    # ---- on and off ----

    def keep_apis(self, session):
        """Functions stay replaced between steps: a step may begin inside the expression that looked
        one up, as in loss(model(x)). They cost a test per call until the last selected step."""
        if session.level in LEVELS_WITH_APIS:
            self._keeps_apis = True
            self.apis.install()

    def _release_apis(self, session):
        if not self._keeps_apis or session.finished:
            self.apis.remove()

    def install(self, session, model, token_range):
        if session.level in LEVELS_WITH_MODULES:
            self.modules.add_model(model)
        self.modules.set_window(model, token_range)
        if token_range is not None:
            session.recording = False
            session.switch()
        if session.level in LEVELS_WITH_MODULES or token_range is not None:
            self.modules.install()
        if session.level in LEVELS_WITH_APIS:
            self.apis.install()

    def pause(self, session):
        self._release_apis(session)
        # Modules stay: their calls count until the step ends, recorded or not.

    def finish_step(self, session):
        self.pending.finish()
        self.pending.remove()
        self.modules.remove()
        self.modules.drop_handles()

    def remove(self, session):
        self.pause(session)
        self.modules.remove()
        self.pending.remove()
        if session.finished:
            self.modules.forget()
