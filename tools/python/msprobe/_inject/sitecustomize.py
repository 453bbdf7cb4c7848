"""Loaded by every Python that a capturing launcher starts: waits for torch to be imported.

Nothing is imported here that a program does not import itself; a sitecustomize of the environment
that this file hides is run as well.
"""
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import _thread

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_PACKAGE = os.path.dirname(_FOLDER)
# By variable: {its value: (what the program imports, what then watches it)}.
_MODULES = {
    "MSPROBE_DUMP_FRAMEWORK": {
        "pytorch": ("torch", "msprobe.pytorch.autocapture"),
        "mindspore": ("mindspore", "msprobe.mindspore.autocapture")},
    "MSPROBE_MONITOR_FRAMEWORK": {
        "pytorch": ("torch", "msprobe.pytorch.monitor.autocapture")},
    "MSPROBE_COMPILE_CHECK_FRAMEWORK": {
        "pytorch": ("torch", "msprobe.pytorch.compile_check.autocapture")},
}


def _leave_trace(letter):
    """Tells the launchers how far this process came; src/commands/launcher.cpp reads it."""
    for variable in _MODULES:
        path = os.environ.get(variable.replace("FRAMEWORK", "TRACE"))
        if path and os.environ.get(variable):
            try:
                file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK)
                try:
                    os.write(file, letter)
                finally:
                    os.close(file)
            except OSError:  # the launcher may be gone, or on another host
                pass


class _OwnPackage(importlib.abc.MetaPathFinder):
    """Finds the package that this file belongs to, and nothing else in its folder, which is not on
    the path: packages that lie there are those of another Python, perhaps."""

    def find_spec(self, fullname, path, target=None):
        if fullname != "msprobe":
            return None
        return importlib.util.spec_from_file_location(
            fullname, os.path.join(_PACKAGE, "__init__.py"), submodule_search_locations=[_PACKAGE])


class _After(importlib.abc.Loader):
    """Loads a module as its own loader does, then calls `then`."""

    def __init__(self, loader, then):
        self._loader = loader
        self._then = then

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._then()

    def __getattr__(self, name):
        return getattr(self._loader, name)


class _Waiting(importlib.abc.MetaPathFinder):
    """Until the framework is imported: that it is found does not mean so. Transformers looks whether
    there is PyTorch long before anybody imports it."""

    def __init__(self, name, activator):
        self._name = name
        self._activator = activator
        self._looking = set()  # threads

    def find_spec(self, fullname, path, target=None):
        thread = _thread.get_ident()
        if fullname != self._name or thread in self._looking:
            return None
        self._looking.add(thread)
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._looking.discard(thread)
        if spec is not None and spec.loader is not None:
            spec.loader = _After(spec.loader, self._activate)
        return spec

    def _activate(self):
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        _leave_trace(b"f")
        try:
            importlib.import_module(self._activator).activate()
        except Exception as error:  # the program runs as it would without us
            _leave_trace(("!%s: %s\n" % (type(error).__name__, " ".join(str(error).split())[:500])).encode("utf-8", "replace"))
            sys.stderr.write("msprobe: nothing is captured: %s: %s\n"
                             % (type(error).__name__, error))


def _run_hidden_sitecustomize():
    # Behind this one only: before it there may be another installation's, which has just run.
    places = [os.path.abspath(place or ".") for place in sys.path]
    first = places.index(_FOLDER) + 1 if _FOLDER in places else 0
    places = [place for place in places[first:] if place != _FOLDER]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", places)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_leave_trace(b"p")
sys.meta_path.insert(0, _OwnPackage())
for _variable, _frameworks in _MODULES.items():
    _wanted = _frameworks.get(os.environ.get(_variable))
    if _wanted is not None:
        sys.meta_path.insert(0, _Waiting(*_wanted))
_run_hidden_sitecustomize()
