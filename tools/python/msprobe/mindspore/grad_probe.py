"""The task grad_probe for MindSpore: gradients as an optimizer is given them."""
from msprobe._grad_probe import GradProbe
from msprobe._intercept import optimizer_steps
from msprobe.mindspore import ranks, values


class MindSporeGradProbe(GradProbe):
    """monitor(optimizer): the gradients of its parameters, by their names."""

    def __init__(self, config_path, overrides):
        super().__init__(config_path, overrides)
        values.configure()
        self._unhook = lambda: None

    def rank(self):
        return ranks.rank()

    def named_parameters(self, watched):
        parameters = getattr(watched, "parameters", None)
        if not isinstance(parameters, (list, tuple)) and not hasattr(parameters, "__iter__"):
            raise TypeError("monitor() takes the optimizer, not %s" % type(watched).__name__)
        self._order = {id(parameter): index for index, parameter in enumerate(parameters)}
        return [(parameter.name, parameter) for parameter in parameters]

    def gradient(self, parameter, given):
        index = self._order[id(parameter)]
        return given[index] if given is not None and index < len(given) else None

    # ---- of the hook ----

    measuring = True

    def update_begins(self, watched):
        """For optimizer_steps: `watched` is this object's own record of the optimizer."""
        given = watched.update_arguments[0] if watched.update_arguments else None
        self.before_step(given if isinstance(given, (list, tuple)) else None)

    def update_ends(self, watched):
        """Nothing to do."""

    def put_hooks(self, watched):
        self._unhook = optimizer_steps.hook(
            self, _Optimizer(watched), "step" if hasattr(watched, "step") else "construct")

    def take_hooks(self):
        unhook, self._unhook = self._unhook, lambda: None
        unhook()


class _Optimizer:
    """What optimizer_steps knows of an optimizer."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.update_arguments = ()
