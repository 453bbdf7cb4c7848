"""A framework's functions, observed while calls are recorded."""
import inspect
import json
import os

from msprobe import _native
from msprobe._intercept import runtime
from msprobe._intercept.in_place import Callers, layer_over
from msprobe._intercept.slots import Holder, InPlace, ManySlots, Slot

# What a recorded function gives back: its result; its arguments (collectives); a handle, after
# which the arguments hold it; its result, perhaps with a handle.
PLAIN, COLLECTIVE, ALWAYS_HANDLE, WITH_HANDLE = 0, 1, 2, 3
# What a batch of messages names as the operation of each. The module that runs the batch asks which of the two it is by identity with its
# own name for the function, to tell destination from source: that name stays the function.
IN_BATCHES = ("isend", "irecv")
RETURN_HANDLES = (*IN_BATCHES, "batch_isend_irecv")


def load_names(framework):
    """The functions to record: {category: names}."""
    path = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                        "captured_apis.json")
    with open(path) as file:
        return json.load(file)[framework]


def resolve(holder, dotted):
    """(holder of the last component, last component), or None where a part is missing."""
    *path, name = dotted.split(".")
    for part in path:
        holder = getattr(holder, part, None)
        if holder is None:
            return None
    return (holder, name) if hasattr(holder, name) else None


def async_position(function):
    try:
        return list(inspect.signature(function).parameters).index("async_op")
    except (ValueError, TypeError):
        return -1


class Functions(Holder):
    """All functions of the list that a framework has, and those a user registered."""

    in_place = True  # False: another object stands in for each function while calls are recorded

    def __init__(self):
        self._slots = None
        self._custom = {}
        self.installed = False

    def categories(self):
        """(holder, prefix, names) of what is recorded by its result."""
        return ()

    def further_slots(self):
        """What is recorded in another way."""
        return ()

    @staticmethod
    def recorded_name(prefix, dotted, attribute):
        """What stands between the prefix and the number of a call."""
        return attribute

    def _functions(self):
        """(holder, attribute, function, prefix, recorded name) of all that are here."""
        for holder, prefix, names in self.categories():
            for dotted in names:
                found = resolve(holder, dotted)
                if found is None:
                    continue
                function = getattr(*found)
                if not callable(function) or isinstance(function, (type, _native.Api)):
                    continue
                yield found[0], found[1], function, prefix, self.recorded_name(prefix, dotted,
                                                                               found[1])

    def find(self, base):
        """(holder, attribute, function) of those recorded as `base` ("Functional.linear")."""
        return [(holder, attribute, function)
                for holder, attribute, function, prefix, name in self._functions()
                if "%s.%s" % (prefix, name) == base]

    def install(self):
        if self.installed:
            return
        if self._slots is None:
            plain = self._make_slots(list(self._functions()))
            self._slots = [ManySlots(plain, self._renewed), *self.further_slots()]
        self.installed = True
        self.put()
        runtime.put(self)

    def remove(self):
        if self.installed:
            self.installed = False
            self.take()
            runtime.taken(self)

    def _make_slots(self, functions):
        """One slot each. A function that several holders have is one object, and its caller tells which of them is meant."""
        by_function = {}
        for holder, attribute, function, prefix, name in functions:
            by_function.setdefault(id(function), []).append((holder, attribute, function, prefix, name))
        for places in by_function.values():
            yield from self._slots_of(places)

    def _slots_of(self, places):
        function = places[0][2]
        layer = layer_over(function) if self.in_place else None
        if layer is not None:
            layer.observe(tuple(_native.Api(layer, prefix, name) for _, _, _, prefix, name in places), self._callers(function, places))
        for holder, attribute, _, prefix, name in places:
            if layer is None:
                slot = Slot(holder, attribute, _native.Api(function, prefix, name))
            else:
                slot = InPlace(holder, attribute, layer)
            slot.recorded_as = (prefix, name)
            yield slot

    @staticmethod
    def _callers(function, places):
        """Who tells what a caller means. Methods are found by the objects that they belong to: their callers are not asked, but where
        an operator that is not recorded is the same object."""
        holders = [(holder, attribute) for holder, attribute, *_ in places]
        if not isinstance(holders[0][0], type):
            return Callers(function, holders)
        names = {attribute for _, attribute in holders}
        others = [name for base in holders[0][0].__mro__ for name, value in vars(base).items() if value is function and name not in names]
        return Callers(function, holders, only_by_name=True) if others else None

    def _renewed(self, slot):
        """Somebody replaced the function meanwhile: that is recorded now."""
        function = getattr(slot.holder, slot.name, None)
        if not callable(function) or isinstance(function, (type, _native.Api)):
            return None
        [renewed] = self._slots_of([(slot.holder, slot.name, function, *slot.recorded_as)])
        return renewed

    def register_custom(self, module, name, prefix):
        """Observes module.name for good, until restore_custom."""
        key = (id(module), name)
        if key in self._custom:
            return
        function = getattr(module, name)
        if not callable(function):
            raise ValueError("%s is not a function" % name)
        [slot] = self._slots_of([(module, name, function, prefix, name)])
        self.put_custom(module, name, slot)

    def put_custom(self, module, name, slot):
        """The same with a slot that somebody made."""
        if (id(module), name) not in self._custom:
            slot.put()
            self._custom[(id(module), name)] = slot

    def restore_custom(self, module, name):
        slot = self._custom.pop((id(module), name), None)
        if slot is None:
            raise ValueError("%s was not registered" % name)
        slot.take()
