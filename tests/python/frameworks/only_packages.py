"""Hides the folders of tests beside this file, which look like packages: a framework that asks whether another one is there would take the
folder for it. To be imported before the framework."""
import importlib.machinery
import os
import sys

_HERE = os.path.dirname(os.path.abspath(__file__))


def _is_a_mere_folder(name):
    spec = importlib.machinery.PathFinder.find_spec(name)
    return spec is not None and spec.origin is None


for _name in os.listdir(_HERE):
    if os.path.isdir(os.path.join(_HERE, _name)) and _is_a_mere_folder(_name):
        sys.modules[_name] = None
