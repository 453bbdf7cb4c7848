"""Functions that are observed where they are.

The object that a program finds, keeps, compares and pickles is the framework's own one at any time; what is exchanged is the pointer
through which the interpreter calls it (native/in_place.h). So calls are seen however the program got hold of the function. Those that
the former way of observing could not see, since it put another object at the attribute, are left alone here: dumps name the same
calls as before, and as those of the Python tool.
"""
import dis
import functools
import types

from msprobe import _native


# ---- what this interpreter allows ----

def _is_seen(function, call):
    """Whether calls are seen between put and take and at no other time, also where the interpreter has specialised the caller."""
    try:
        layer, seen = _native.InPlace(function), []
    except TypeError:
        return False

    def note(*args, **kwargs):
        seen.append(None)
        return layer(*args, **kwargs)

    layer.observe(note)
    for _ in range(64):
        call()
    before = len(seen)
    layer.put()
    call()
    during = len(seen) - before
    layer.take()
    call()
    layer.observe(None)
    return before == 0 and during == 4 and len(seen) == during


def _function_is_seen():
    def probe(first=0, *rest, named=0):
        return first

    def call():
        probe()
        probe(1)
        probe(*(1, 2))
        probe(named=3)

    return _is_seen(probe, call)


def _builtin_is_seen():
    probe = _native.can_recompute

    def call():
        probe("")
        probe(*("",))
        probe(*("",), **{})
        probe("")

    return _is_seen(probe, call)


def _method_is_seen():
    probe, api = _native.Api.__copy__, _native.Api(len, "", "")

    def call():
        probe(api)
        probe(*(api,))
        api.__copy__()
        bound = api.__copy__
        bound()

    return _is_seen(probe, call)


_CHECKS = {types.FunctionType: _function_is_seen, types.BuiltinFunctionType: _builtin_is_seen,
           types.MethodDescriptorType: _method_is_seen, types.WrapperDescriptorType: lambda: True}


@functools.lru_cache(maxsize=None)
def _allowed(kind):
    return kind in _CHECKS and _CHECKS[kind]()


def layer_over(function):
    """A layer of observation, not yet put; None where a function of this kind cannot be observed in place."""
    if not _allowed(type(function)):
        return None
    try:
        return _native.InPlace(function)
    except TypeError:
        return None


# ---- from where it is called ----

_ATTRIBUTE, _GLOBAL, _SUBSCRIPT, _OTHER = range(4)
_PRODUCERS = {"LOAD_ATTR": _ATTRIBUTE, "LOAD_METHOD": _ATTRIBUTE, "LOAD_SUPER_ATTR": _ATTRIBUTE, "LOAD_GLOBAL": _GLOBAL,
              "LOAD_NAME": _GLOBAL, "BINARY_SUBSCR": _SUBSCRIPT}
# How many values lie over the callee, and what belongs to it, when the instruction begins.
_CALLS = {"CALL_FUNCTION": lambda count: count, "CALL_METHOD": lambda count: count, "PRECALL": lambda count: count,
          "CALL": lambda count: count, "CALL_FUNCTION_KW": lambda count: count + 1, "CALL_KW": lambda count: count + 1,
          "CALL_FUNCTION_EX": lambda flags: 1 + (flags & 1)}
_ENDS = ("JUMP_FORWARD", "JUMP_ABSOLUTE", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS",
         "RERAISE")
_JUMPS = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)
_LEAVE_THE_CALLEE = ("NOP", "EXTENDED_ARG", "KW_NAMES", "PRECALL", "RESUME")


class _Code:
    """Of a code object: the attributes that it reads, and how each of its calls got hold of what it calls."""

    def __init__(self, code):
        self.calls = {}  # offset of the call: (kind, name, names of what the attribute was read from)
        self.attributes = set()
        instructions = [item for item in dis.get_instructions(code) if item.opname != "CACHE"]
        self.attributes.update(item.argval for item in instructions if _PRODUCERS.get(item.opname) == _ATTRIBUTE)
        try:
            self._follow(instructions)
        except (ValueError, KeyError):  # an instruction that this Python's own table does not know
            self.calls = None

    def _follow(self, instructions):
        depth, of_targets, left_at = 0, {}, {}
        over = None
        for index, item in enumerate(instructions):
            depth = of_targets.get(item.offset, depth)
            argument = item.arg if item.opcode >= dis.HAVE_ARGUMENT else None
            if item.opname in _CALLS:
                if over is None:
                    over = depth - _CALLS[item.opname](item.arg)
                producer = left_at.get(over)
                if producer is not None and instructions[producer].opname == "PUSH_NULL":
                    producer = left_at.get(over - 1)
                self.calls[item.offset] = self._described(instructions, producer)
            # A call may consist of two instructions.
            over = over if item.opname in ("PRECALL", "KW_NAMES", "EXTENDED_ARG") else None
            if item.opcode in _JUMPS:
                of_targets.setdefault(item.argval, depth + dis.stack_effect(item.opcode, argument, jump=True))
            depth += dis.stack_effect(item.opcode, argument, jump=False)
            if item.opcode not in _JUMPS and item.opname not in _LEAVE_THE_CALLEE:
                left_at[depth] = index

    @staticmethod
    def _described(instructions, producer):
        if producer is None:
            return _OTHER, None, ()
        item = instructions[producer]
        names = []
        while producer > 0 and instructions[producer].opname in ("LOAD_ATTR", "LOAD_METHOD"):
            producer -= 1
            names.append(instructions[producer].argval)
        if names and _PRODUCERS.get(instructions[producer].opname) not in (_GLOBAL, _ATTRIBUTE):
            names = []
        return _PRODUCERS.get(item.opname, _OTHER), item.argval, tuple(reversed(names))


_known_code = functools.lru_cache(maxsize=4096)(_Code)


class Callers:
    """Which attribute of a function, if any, a caller read it from: `places` are (holder, attribute) of all that have it.

    A caller that kept the function from before the capture is not recorded: a global name, another attribute, an item of a container.
    Where that is unknown, it is. `only_by_name`: operators, which reach the function as well, are not recorded."""

    def __init__(self, function, places, only_by_name=False):
        self._function = function
        self._places = places
        self._only_by_name = only_by_name

    def __call__(self, frame):
        """The index of the place, or -1."""
        code = _known_code(frame.f_code)
        if code.calls is None:
            return self._read_by(code, otherwise=0)
        if frame.f_lasti not in code.calls:  # an operator, or an iterator that calls
            return -1 if self._only_by_name else 0
        kind, name, base = code.calls[frame.f_lasti]
        if kind == _ATTRIBUTE and any(name == attribute for _, attribute in self._places):
            return self._place(frame, name, base)
        if self._only_by_name:
            return -1
        if kind == _GLOBAL:
            value = frame.f_globals.get(name)
            while isinstance(value, functools.partial):
                value = value.func
            if value is not self._function:  # what calls it in turn
                return 0
            for index, (holder, _) in enumerate(self._places):
                if frame.f_globals is vars(holder):
                    return index
        return self._read_by(code, otherwise=0 if kind == _OTHER else -1)

    def _read_by(self, code, otherwise):
        """The place by whose name the caller reads an attribute somewhere."""
        return next((index for index, (_, attribute) in enumerate(self._places) if attribute in code.attributes), otherwise)

    def _place(self, frame, name, base):
        """Which of several holders the attribute was read from."""
        named = [index for index, (_, attribute) in enumerate(self._places) if attribute == name]
        found = frame.f_globals.get(base[0]) if base else None
        for part in base[1:]:
            found = getattr(found, part, None) if isinstance(found, types.ModuleType) else None
        return next((index for index in named if self._places[index][0] is found), named[0])
