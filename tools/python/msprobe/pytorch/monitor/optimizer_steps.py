"""The steps of one optimizer, seen from its own attribute `step`.

The instance is changed, not its class: other optimizers of that class are none of our business.
"""
import types

_WITHOUT = object()


def hook(monitor, watched):
    """Replaces watched.optimizer.step; returns what takes that back."""
    optimizer = watched.optimizer
    before = vars(optimizer).get("step", _WITHOUT) if hasattr(optimizer, "__dict__") else _WITHOUT
    original = optimizer.step
    active = [True]

    def step(self, *args, **kwargs):
        if not active[0] or not monitor.measuring:
            result = original(*args, **kwargs)
        else:
            args, kwargs = _after_closure(lambda: monitor.update_begins(watched), args, kwargs)
            result = original(*args, **kwargs)
        if active[0]:
            monitor.update_ends(watched)
        return result

    # What others left at the function, such as the mark of a learning rate scheduler, stays there.
    step.__dict__.update(getattr(original, "__dict__", {}))
    step.__doc__ = getattr(original, "__doc__", None)
    # A bound method: schedulers ask for its function and its owner.
    replacement = types.MethodType(step, optimizer)
    optimizer.step = replacement

    def unhook():
        active[0] = False
        if vars(optimizer).get("step") is not replacement:
            return  # wrapped by somebody else meanwhile: ours stays and does nothing
        if before is _WITHOUT:
            del optimizer.step
        else:
            optimizer.step = before

    return unhook


def _after_closure(begin, args, kwargs):
    """Calls `begin`: now, or after the first run of the closure that computes the gradients."""
    named = "closure" in kwargs
    closure = kwargs.get("closure") if named else (args[0] if args else None)
    if not isinstance(closure, (types.FunctionType, types.MethodType)):
        begin()
        return args, kwargs
    begun = []

    def run(*arguments, **keywords):
        loss = closure(*arguments, **keywords)
        if not begun:
            begun.append(True)
            begin()
        return loss

    if named:
        return args, dict(kwargs, closure=run)
    return (run,) + tuple(args[1:]), kwargs
