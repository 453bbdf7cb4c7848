"""What must not happen, made visible.

Canaries   a folder in which no file may appear, a port on which nobody may call, a variable whose value may be in no result
traced     runs a command under strace and returns what it ran, where it connected and what it opened to write

A trace is judged by the one of a harmless run of the same command: a hostile file may not make a program start, connect or write
anywhere that a harmless one does not. That holds for frameworks of any version, whose imports do what they like.
"""
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading

SECRET = "canary-3f1c9a77d2"
VARIABLE = "CANARY_WORD"


class Marker:
    def __init__(self, folder, port, name):
        safe = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:120]
        self.path = os.path.join(folder, safe)
        self.command = "touch " + self.path
        self.url = "http://127.0.0.1:%d/%s" % (port, safe)


class Canaries:
    def __init__(self):
        self.root = tempfile.mkdtemp(prefix="msprobe_security_")
        self._folder = os.path.join(self.root, "canary")
        self.work = os.path.join(self.root, "work")
        os.mkdir(self._folder)
        os.mkdir(self.work)
        self.calls = []
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self._socket.listen(16)
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self):
        while True:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            with peer:
                peer.settimeout(1)
                try:
                    self.calls.append(peer.recv(200))
                except OSError:
                    self.calls.append(b"")

    def marker(self, name):
        return Marker(self._folder, self.port, name)

    def path(self, *parts):
        return os.path.join(self.work, *parts)

    def close(self):
        self._socket.close()
        shutil.rmtree(self.root, ignore_errors=True)

    def environment(self, **more):
        return {**os.environ, VARIABLE: SECRET, "OMP_NUM_THREADS": "1", **more}

    def dead(self):
        """What happened that must not, as lines; empty: nothing."""
        found = ["a file was made or changed: " + os.path.relpath(os.path.join(folder, name), self._folder)
                 for folder, folders, files in os.walk(self._folder) for name in folders + files]
        found += ["a connection came: %r" % call for call in self.calls]
        for folder, _, files in os.walk(self.work):
            for name in files:
                path = os.path.join(folder, name)
                if os.path.islink(path) or not os.path.isfile(path):
                    continue
                with open(path, "rb") as file:
                    if SECRET.encode() in file.read():
                        found.append("the canary's word is in " + os.path.relpath(path, self.work))
        return found


def run(command, canaries, limit=110, **variables):
    """(exit code, output); None as exit code: it took longer than `limit` seconds."""
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, cwd=canaries.work, env=canaries.environment(**variables), stdin=subprocess.DEVNULL, stdout=output,
                                   stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = None
        output.seek(0)
        return code, output.read().decode("utf-8", "replace")


# Calls that start programs, reach others or change the file system.
TRACED = ("execve,execveat,connect,bind,sendto,sendmsg,openat,open,creat,mkdir,mkdirat,unlink,unlinkat,rename,renameat,renameat2,link,linkat,symlink,symlinkat,mknod,"
          "mknodat,chdir,fchdir,truncate,chmod,fchmodat,chown,fchownat,mount,ptrace,kill,tkill,setxattr")
LINE = re.compile(r"^(\w+)\((.*)\) += (-?\d+|\?)")
# A path, behind the folder that it is relative to where the call has one: strace -y writes 4</path>.
PATH = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"((?:[^"\\]|\\.)*)"')
# Parts of names that differ from run to run: numbers, and what mkstemp() draws.
VARYING = re.compile(r"(?<=[-_.])[A-Za-z0-9_]{6,8}(?=/|$)|[0-9a-f]{6,}|\d+")
DESCRIPTOR = re.compile(r"\d+<([^>]*)>")
WRITING = re.compile(r"O_(WRONLY|RDWR|CREAT|TRUNC|APPEND)")
HARMLESS_FILES = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/tty", "/dev/shm/", "/proc/self/", "/sys/")


def strace_works():
    if not shutil.which("strace"):
        return False
    with tempfile.NamedTemporaryFile() as trace:
        return subprocess.run(["strace", "-f", "--seccomp-bpf", "-o", trace.name, "-e", "trace=execve", "true"], stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0


def traced(command, canaries, allowed, limit=110, **variables):
    """(exit code, output, acts). `allowed`: folders in which everything may be written."""
    traces = tempfile.mkdtemp(dir=canaries.root, prefix="trace")
    # A file per process, so that no line is cut by another process.
    code, output = run(["strace", "-ff", "--seccomp-bpf", "-qq", "-y", "-s", "4096", "-e", "signal=none", "-e", "trace=" + TRACED,
                        "-o", os.path.join(traces, "trace")] + command, canaries, limit, **variables)
    acts = set()
    for name in os.listdir(traces):
        with open(os.path.join(traces, name), errors="replace") as file:
            acts |= acts_of(file, canaries.work, [os.path.realpath(folder) + "/" for folder in allowed])
    return code, output, acts


def acts_of(lines, folder, allowed):
    """What a process that begins in `folder` did, as a set of lines without numbers that differ from run to run."""
    acts = set()
    for line in lines:
        match = LINE.match(line)
        # A connection or a program that was tried for and refused is one that a file asked for.
        if not match or (match.group(3).startswith("-") and not match.group(1).startswith(("connect", "exec"))):
            continue
        call, arguments = match.group(1), match.group(2)
        paths = [os.path.normpath(os.path.join(folder, *path)) for path in PATH.findall(arguments)]
        if call in ("connect", "bind", "sendto", "sendmsg"):
            if "AF_INET" in arguments or "sun_path" in arguments:
                acts.add("%s %s" % (call, re.sub(r"\s+", " ", arguments.split("{", 1)[-1])[:160]))
        elif call in ("execve", "execveat"):
            acts.add("execve " + paths[0])
        elif call in ("chdir", "fchdir"):
            folder = paths[0] if paths else DESCRIPTOR.search(arguments).group(1)
        elif not paths or call in ("kill", "tkill", "ptrace", "mount"):
            acts.add(call)
        elif call not in ("openat", "open") or WRITING.search(arguments):
            if not paths[-1].startswith(HARMLESS_FILES) and not any((paths[-1] + "/").startswith(place) for place in allowed):
                acts.add("%s %s" % (call, VARYING.sub("#", paths[-1])))
    return acts
