"""Level L2k: what torch.compile made, kernel by kernel, as calls of the capture.

Every argument of a graph and every output of a kernel is a call, `Compiled.<graph>.<node>.<number>.forward`, whose output is that buffer. What a
kernel was given are outputs of earlier calls. Which node of the graph a buffer is, is found as compile_check finds it, so a name does not
depend on how operators were fused: two compiled runs have the same names, and so does the run of a backend that runs operators one by one.
A buffer that holds no node goes by the names of its kernel and of its variable.
"""
from torch.utils import _python_dispatch

from msprobe import _native
from msprobe._intercept.compilers import Compilers
from msprobe._intercept.functions import PLAIN
from msprobe._intercept.runtime import own_work
from msprobe.pytorch.compile_check.rows import Rows
from msprobe.pytorch.compile_check.watch import Watch

PREFIX = "Compiled"


class CompiledKernels(Watch):
    """In place from the first start on, as a graph is compiled once; records where the session does."""

    def __init__(self, session):
        super().__init__(None, None)
        self._session = session
        self._rows = Rows(None)
        self._record = self._recorded
        self._calls = {}
        self._output = None

    def _is_wanted(self, graph, args):
        return self._session.recording

    def _check(self, graph, function, args, run):
        with self._lock, own_work():
            return run()

    def install(self):
        Compilers.sees_inside = True
        super().install()

    def close(self):
        Compilers.sees_inside = False
        self._rows = None
        super().close()

    def _recorded(self, graph, what, output):
        name = "%s.%s" % (graph.replace(" ", "_").replace("/", "_"), what)
        call = self._calls.get(name)
        if call is None:
            call = self._calls[name] = _native.Api(lambda: self._output, PREFIX, name, PLAIN)
        self._output = output
        # The mode that sees the operators between kernels stays out of it: the capture puts those of the training aside on its own.
        with _python_dispatch._disable_current_modes():
            before = _native.inside(False)
            try:
                call()
            finally:
                _native.inside(before)
        self._output = None
