"""Marks the package as built for this processor, for every CPython from 3.8 on."""
from setuptools import Distribution, setup


class NativeDistribution(Distribution):
    """The extension is built already and travels as data."""

    def has_ext_modules(self):
        return True


setup(distclass=NativeDistribution, options={"bdist_wheel": {"py_limited_api": "cp38"}})
