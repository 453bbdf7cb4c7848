"""torchtitan has kernels in Triton for GPUs, which are made by name when it is imported; none is called here."""
import sys
import types


class _Anything(types.ModuleType):
    """What a kernel is decorated and described with."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _Anything(name)

    def __call__(self, *arguments, **_):
        return arguments[0] if arguments and isinstance(arguments[0], types.FunctionType) else self


_names = ("triton", "triton.language")
for _name in _names:
    sys.modules[_name] = _Anything(_name)
sys.modules["triton"].language = sys.modules["triton.language"]
import torchtitan.distributed.minimal_async_ep  # noqa: E402,F401
for _name in _names:
    del sys.modules[_name]   # for PyTorch there is none
