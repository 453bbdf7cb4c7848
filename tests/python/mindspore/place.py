"""Where MindSpore is: installed for this Python, or the stand-in, which is held to the real one by running the same
tests (tests/frameworks/run.py mindspore)."""
import importlib.util
import os

REAL = importlib.util.find_spec("mindspore") is not None
# What a script puts before its sys.path.
PLACE = [] if REAL else [os.path.join(os.path.dirname(os.path.abspath(__file__)), "stand_in")]
