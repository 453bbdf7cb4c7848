"""Functions of the user that a file names (custom_wrap_ops.yaml of the Python tool), recorded like those of PyTorch.

The file is data: a module is looked for among those that the program has imported, never imported for it. What is not there yet
is looked for again at every start."""
import json
import os
import sys

from msprobe import _native
from msprobe._intercept.runtime import log
from msprobe._intercept.slots import Slot

VARIABLE = "MSPROBE_CUSTOM_WRAP_OPS"


def with_file(overrides):
    """Overrides of a configuration, with the file that the environment names."""
    path = os.environ.get(VARIABLE)
    return dict({"custom_api_file": path}, **(overrides or {})) if path else overrides


def _resolve(module_path):
    """The module or class of this path, as far as it is imported; None: it is not there."""
    parts = module_path.split(".")
    for count in range(len(parts), 0, -1):
        found = sys.modules.get(".".join(parts[:count]))
        if found is None:
            continue
        for part in parts[count:]:
            found = vars(found).get(part) if hasattr(found, "__dict__") else None
            if found is None:
                return None
        return found
    return None


class CustomApis:
    """Those of one configuration."""

    def __init__(self, apis, session):
        self._apis = apis
        self._session = session
        self._path = session.settings.get("custom_api_file")
        self._seen = self._signature()
        self._pending = self._listed(session.settings)
        self._known = set()
        self._told = set()

    def _signature(self):
        try:
            status = os.stat(self._path)
            return status.st_mtime_ns, status.st_size
        except (OSError, TypeError):
            return None

    @staticmethod
    def _listed(settings):
        return [tuple(pair) for pair in settings.get("custom_apis", ())]

    def look(self):
        """Registers what is there now."""
        if not self._path:
            return
        signature = self._signature()
        if signature is not None and signature != self._seen:
            self._seen = signature
            fresh = json.loads(_native.settings_of(b"", json.dumps({"dump_path": "dump", "custom_api_file": self._path}), "pytorch"))
            self._pending = [pair for pair in self._listed(fresh) if pair not in self._known]
        self._pending = [pair for pair in self._pending if not self._register(*pair)]

    def _register(self, module_path, name):
        """Whether there is nothing more to try."""
        holder = _resolve(module_path)
        if holder is None:
            self._tell("%s is not imported: its %s is not recorded until it is" % (module_path, name))
            return False
        try:
            function = getattr(holder, name)
        except AttributeError:
            self._tell("%s has no %s" % (module_path, name))
            return False
        if not callable(function) or isinstance(function, (type, _native.Api)):
            self._tell("%s.%s is not a function: it is left as it is" % (module_path, name))
            return True
        kind = type(vars(holder).get(name)) if isinstance(holder, type) else None
        if kind in (staticmethod, classmethod):
            api = _native.Api(vars(holder)[name].__func__, module_path, name)
            self._apis.put_custom(holder, name, Slot(holder, name, kind(api)))
        else:
            self._apis.register_custom(holder, name, module_path)
        self._known.add((module_path, name))
        return True

    def _tell(self, text):
        if text not in self._told:
            self._told.add(text)
            log(_native.LOG_WARNING, "custom functions: " + text)
