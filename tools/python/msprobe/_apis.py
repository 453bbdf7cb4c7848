"""Stand-ins for a framework's functions: in place while calls are recorded, taken away after."""
import contextlib
import inspect
import json
import os

from msprobe import _native

# What a recorded function gives back: its result; its arguments (collectives); a handle, after
# which the arguments hold it; its result, perhaps with a handle.
PLAIN, COLLECTIVE, ALWAYS_HANDLE, WITH_HANDLE = 0, 1, 2, 3
RETURN_HANDLES = ("isend", "irecv", "batch_isend_irecv")


def load_names(framework):
    """The functions to record: {category: names}."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "captured_apis.json")
    with open(path) as file:
        return json.load(file)[framework]


class Place:
    """One attribute that is replaced: of a module, a class or a namespace object."""

    def __init__(self, holder, name, replacement):
        self.holder = holder
        self.name = name
        self.replacement = replacement
        self.own = name in vars(holder)
        self.original = vars(holder)[name] if self.own else None

    def put(self):
        setattr(self.holder, self.name, self.replacement)

    def take(self):
        if self.own:
            setattr(self.holder, self.name, self.original)
        elif self.name in vars(self.holder):
            delattr(self.holder, self.name)


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


class Patches:
    """A set of places; `put` and `take` may be called repeatedly."""

    def __init__(self, make_places):
        self._make_places = make_places
        self._places = []

    def put(self):
        if self._places:
            return
        self._places = list(self._make_places())
        for place in self._places:
            place.put()

    def take(self):
        for place in reversed(self._places):
            place.take()
        self._places = []


class ApiHooks:
    """All functions of the list that a framework has, and those a user registered."""

    def __init__(self):
        self._places = None
        self._custom = {}
        self.installed = False

    def categories(self):
        """(holder, prefix, names) of what is recorded by its result."""
        return ()

    def further_places(self):
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
        if self._places is None:
            self._places = [Place(holder, attribute, _native.Api(function, prefix, name))
                            for holder, attribute, function, prefix, name in self._functions()]
            self._places.extend(self.further_places())
        for place in self._places:
            place.put()
        self.installed = True

    def remove(self):
        if not self.installed:
            return
        self.installed = False
        for place in self._places:
            place.take()

    @contextlib.contextmanager
    def away(self):
        """The functions are the originals."""
        installed = self.installed
        self.remove()
        try:
            yield
        finally:
            if installed:
                self.install()

    def register_custom(self, module, name, prefix):
        """Replaces module.name for good, until restore_custom."""
        key = (id(module), name)
        if key in self._custom:
            return
        function = getattr(module, name)
        if not callable(function):
            raise ValueError("%s is not a function" % name)
        place = Place(module, name, _native.Api(function, prefix, name))
        place.put()
        self._custom[key] = place

    def restore_custom(self, module, name):
        place = self._custom.pop((id(module), name), None)
        if place is None:
            raise ValueError("%s was not registered" % name)
        place.take()
