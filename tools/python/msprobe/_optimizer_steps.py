"""The steps of one optimizer, seen from its own attribute: `step`, or `construct` of MindSpore.

The instance is changed, not its class: other optimizers of that class are none of our business.
"""
import types

_WITHOUT = object()


def hook(monitor, watched, method="step"):
    """Replaces this method of watched.optimizer; returns what takes that back."""
    optimizer = watched.optimizer
    before = vars(optimizer).get(method, _WITHOUT)
    original = getattr(optimizer, method)
    active = [True]

    def step(self, *args, **kwargs):
        if not active[0] or not monitor.measuring:
            result = original(*args, **kwargs)
        else:
            watched.update_arguments = args
            args, kwargs = _after_closure(lambda: monitor.update_begins(watched), args, kwargs)
            result = original(*args, **kwargs)
            watched.update_arguments = ()
        if active[0]:
            monitor.update_ends(watched)
        return result

    # What others left at the function, such as the mark of a learning rate scheduler, stays there.
    step.__dict__.update(getattr(original, "__dict__", {}))
    step.__doc__ = getattr(original, "__doc__", None)
    # A bound method: schedulers ask for its function and its owner.
    replacement = types.MethodType(step, optimizer)
    setattr(optimizer, method, replacement)

    def unhook():
        active[0] = False
        if vars(optimizer).get(method) is not replacement:
            return  # wrapped by somebody else meanwhile: ours stays and does nothing
        if before is _WITHOUT:
            delattr(optimizer, method)
        else:
            setattr(optimizer, method, before)

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
