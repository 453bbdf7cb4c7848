"""The zip of a training: all its processes append to it, one at a time.

Nothing waits for long: what cannot be written now is kept for later. A process that is killed leaves
a whole zip behind: old members are never moved, and the directory at the end is replaced by new
members and a new directory in one write.
"""
import contextlib
import fcntl
import os
import shutil
import struct
import tempfile
import threading
import time
import zipfile

from msprobe._files import require_regular
from msprobe._intercept import runtime
from msprobe.core.config_check import notice

_DATASET = "dataset/step%d/rank%d/dataset.json"
_WEIGHTS = "weights/step%d/rank%d/weight.json"
_RANDOM = "random/rank%d.json"
# What an earlier run leaves. "versions" and "script_env" are written by `msprobe config_check -d` beside the others.
_OURS = ("env", "pip", "versions", "script_env", "hyperparameters/", "dataset/", "weights/", "random/")

# Members tell in an extra field when they were written: rank 0 removes those that are older than
# its process, and keeps what quicker ranks of the same run have written already.
_STARTED = time.time()
_WRITTEN = struct.Struct("<HHQ")  # a number that no other program uses, bytes that follow, microseconds
_WRITTEN_ID = 0x504D

_PATIENCE_S = 0.1  # during a step
_LONG_PATIENCE_S = 60
_CHEAP_S = 0.05  # appending that takes longer is done more rarely: 5 % of the time
_PENDING_BYTES = 64 * 2**20


class Busy(Exception):
    """Another process is writing."""


class _Overlay:
    """A file whose old bytes are read, and whose new end is kept in memory until `commit`."""

    def __init__(self, descriptor):
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self._start = None  # of the new end
        self._end = bytearray()
        self._at = 0

    def _length(self):
        return self._size if self._start is None else self._start + len(self._end)

    @staticmethod
    def seekable():
        return True

    def tell(self):
        return self._at

    def seek(self, offset, whence=os.SEEK_SET):
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at,
                             os.SEEK_END: self._length()}[whence]
        if self._at < 0:
            raise OSError("a place before the file")
        return self._at

    def read(self, count=-1):
        left = self._length() - self._at
        count = left if count is None or count < 0 else max(0, min(count, left))
        if self._start is not None and self._at >= self._start:
            first = self._at - self._start
            data = bytes(self._end[first:first + count])
        else:
            data = os.pread(self._descriptor, count, self._at)
        self._at += len(data)
        return data

    def write(self, data):
        if self._start is None:
            self._start = self._at
        first = self._at - self._start
        if not 0 <= first <= len(self._end):
            raise OSError("only the end of the file is written anew")
        self._end[first:first + len(data)] = data
        self._at += len(data)
        return len(data)

    def truncate(self):
        if self._start is not None:
            del self._end[self._at - self._start:]

    def flush(self):
        pass

    def commit(self):
        """The new end is in the file, or an error is raised and the file is as it was."""
        if self._start is None:
            return
        before = os.pread(self._descriptor, self._size - self._start, self._start)
        try:
            self._write_all(self._end)
        except OSError:
            self._write_all(before)
            raise

    def _write_all(self, data):
        rest, at = memoryview(data), self._start
        while rest:
            written = os.pwrite(self._descriptor, rest, at)
            rest, at = rest[written:], at + written
        os.ftruncate(self._descriptor, at)


class Pack:
    """One zip; the same object for the same path within a process."""

    _packs = {}

    def __init__(self, path):
        self.path = path
        self.step = 0  # forwards so far
        self._pending = []
        self._pending_bytes = 0
        self._next = 0
        self._writing = threading.Lock()
        self._process = os.getpid()
        runtime.at_exit(self._end)

    @classmethod
    def at(cls, path):
        path = os.path.abspath(path)
        os.makedirs(os.path.dirname(path), mode=0o750, exist_ok=True)
        if path not in cls._packs:
            cls._packs[path] = cls(path)
        return cls._packs[path]

    @classmethod
    def finish_all(cls):
        for pack in list(cls._packs.values()):
            pack.finish()

    # ---- members ----

    def add(self, name, data):
        """`data`: text or bytes. It is in the file after the next flush."""
        if isinstance(data, str):
            data = data.encode("utf-8")
        self._pending.append((name, data, time.time()))
        self._pending_bytes += len(data)

    def add_dataset(self, step, rank, text):
        self.add(_DATASET % (step, rank), text)

    def add_weights(self, step, rank, text):
        self.add(_WEIGHTS % (step, rank), text)

    def add_random(self, rank, text):
        self.add(_RANDOM % rank, text)

    # ---- the file ----

    def flush_soon(self):
        """Writes what is pending, unless that would hold up the training."""
        full = self._pending_bytes > _PENDING_BYTES
        began = time.monotonic()
        if began < self._next and not full:
            return
        try:
            self._flush(_LONG_PATIENCE_S if full else _PATIENCE_S)
        except Busy:
            if full:
                self._drop("another process holds the lock of the file")
            self._next = time.monotonic() + 20 * _PATIENCE_S
            return
        ended = time.monotonic()
        if ended - began > _CHEAP_S:
            self._next = ended + 20 * (ended - began)

    @notice.harmless("the end of the pack")
    def finish(self):
        """Writes what is pending, however long others write."""
        try:
            self._flush(_LONG_PATIENCE_S)
        except Busy:
            self._drop("another process holds the lock of the file")

    def _end(self):
        if os.getpid() == self._process:  # what is pending in a forked process, its parent writes
            self.finish()

    def _drop(self, reason):
        notice.once("%s: %d members are lost: %s" % (self.path, len(self._pending), reason))
        self._pending, self._pending_bytes = [], 0

    def _flush(self, patience_s):
        with self._writing:
            if not self._pending:
                return
            with self._locked(patience_s) as descriptor:
                members, self._pending, self._pending_bytes = self._pending, [], 0
                self._append(descriptor, members)

    @staticmethod
    def _append(descriptor, members):
        overlay = _Overlay(descriptor)
        if os.fstat(descriptor).st_size > 0 and not zipfile.is_zipfile(overlay):
            raise ValueError("the file is there already, and is not a zip: move it away")
        overlay.seek(0)
        with zipfile.ZipFile(overlay, "a", zipfile.ZIP_DEFLATED) as archive:
            for name, data, when in members:
                archive.writestr(_member(name, when), data)
        overlay.commit()

    def start_afresh(self):
        """Removes what earlier runs have left. Members of this run stay, and those that are none of
        ours."""
        if not os.path.exists(self.path):
            return
        with self._writing, self._locked(_LONG_PATIENCE_S) as descriptor:
            if os.fstat(descriptor).st_size == 0:
                return
            with zipfile.ZipFile(os.fdopen(os.dup(descriptor), "rb")) as old:
                kept = [member for member in old.infolist() if not _is_left(member)]
                if len(kept) < len(old.infolist()):
                    self._replace(old, kept)

    def _replace(self, old, kept):
        handle, path = tempfile.mkstemp(prefix=".config_check_", suffix=".zip",
                                        dir=os.path.dirname(self.path))
        try:
            os.fchmod(handle, 0o640)
            with os.fdopen(handle, "wb") as file, \
                    zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as new:
                for member in kept:
                    with old.open(member) as source, new.open(_copy(member), "w") as target:
                        shutil.copyfileobj(source, target)
            os.replace(path, self.path)
        except BaseException:
            os.unlink(path)
            raise

    @contextlib.contextmanager
    def _locked(self, patience_s):
        """The descriptor of the file, locked."""
        deadline = time.monotonic() + patience_s
        descriptor = None
        while descriptor is None:
            descriptor = self._open_locked(deadline)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _open_locked(self, deadline):
        """The same; None when the file was replaced meanwhile."""
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC |
                             os.O_NONBLOCK, 0o640)
        try:
            require_regular(descriptor, self.path)
            _lock(descriptor, deadline)
            if os.path.samestat(os.fstat(descriptor), os.stat(self.path)):
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None


def _lock(descriptor, deadline):
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise Busy() from None
            time.sleep(0.005)


def _member(name, when):
    member = zipfile.ZipInfo(name)  # its date is 1980, as of all members
    member.compress_type = zipfile.ZIP_DEFLATED
    member.external_attr = 0o600 << 16
    member.extra = _WRITTEN.pack(_WRITTEN_ID, 8, int(1e6 * when))
    return member


def _copy(member):
    result = zipfile.ZipInfo(member.filename, member.date_time)
    result.compress_type = member.compress_type
    result.external_attr = member.external_attr
    result.comment = member.comment
    result.extra = member.extra if _written(member) is not None else b""
    return result


def _is_left(member):
    """Whether an earlier run has left it."""
    name = member.filename
    if not any(name == own or own.endswith("/") and name.startswith(own) for own in _OURS):
        return False
    written = _written(member)
    return written is None or written < _STARTED


def _written(member):
    """When it was written; None of members that are none of ours."""
    if len(member.extra) != _WRITTEN.size:
        return None
    number, _, microseconds = _WRITTEN.unpack(member.extra)
    return microseconds / 1e6 if number == _WRITTEN_ID else None
