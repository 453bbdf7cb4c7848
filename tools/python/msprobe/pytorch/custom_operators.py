"""Operators of an extension, recorded where a program calls torch.ops.NAMESPACE.OPERATOR(...)."""
import torch

from msprobe import _native
from msprobe._intercept.functions import COLLECTIVE, PLAIN, WITH_HANDLE
from msprobe._intercept.slots import Slot


def slots(namespaces):
    """One for every operator of these namespaces that is registered now."""
    kinds = {}
    if namespaces:
        for schema in torch._C._jit_get_all_schemas():
            namespace, _, name = schema.name.partition("::")
            if namespace in namespaces:
                kinds.setdefault((namespace, name), set()).add(_kind(schema))
    for (namespace, name), of_overloads in sorted(kinds.items()):
        holder = getattr(torch.ops, namespace)
        operator = getattr(holder, name, None)
        if callable(operator) and not isinstance(operator, _native.Api):
            # Overloads that write to arguments decide: what they are given is not to be exchanged.
            yield Slot(holder, name, _native.Api(operator, namespace, name, max(
                of_overloads, key=(PLAIN, COLLECTIVE, WITH_HANDLE).index)))


def _kind(schema):
    """How a call is recorded: an operator that returns nothing has its results in its arguments."""
    if not any(argument.alias_info is not None and argument.alias_info.is_write
               for argument in schema.arguments):
        return PLAIN
    return WITH_HANDLE if schema.returns else COLLECTIVE
