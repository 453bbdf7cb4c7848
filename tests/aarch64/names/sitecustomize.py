"""Loaded by the tests that same_results.py starts: temporary folders have the same names in every run, so that paths in results are
equal, too."""
import itertools
import tempfile


class _Numbered:
    _numbers = itertools.count(1)

    def __iter__(self):
        return self

    def __next__(self):
        return "%08d" % next(_Numbered._numbers)


tempfile._RandomNameSequence = _Numbered
