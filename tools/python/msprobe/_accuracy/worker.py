"""Runs operators for msprobe: worker.py DEVICE ID JIT STRICT REFERENCES, started by the program with a socket and two pieces of memory.

Each call comes as a frame and is answered by one, whatever the operator does; what ends this process is reported by the program, which
starts another. Kept free of the rest of the package: any Python with PyTorch can run it.
"""
import ctypes
import os
import signal
import socket
import sys
import traceback

SOCKET, ARGUMENTS, RESULTS = 3, 4, 5
PR_SET_PDEATHSIG = 1


def die_with_the_program():
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    except (OSError, AttributeError):
        pass  # the socket's end tells it, too, between two calls


def first_line(error):
    return "%s: %s" % (type(error).__name__, error)


def next_frame(connection, wanted):
    """The payload of a frame of this kind; None at the end, or when anything else comes."""
    import frames
    header = frames.receive(connection, frames.HEADER.size)
    if header is None:
        return None
    magic, kind, size = frames.HEADER.unpack(header)
    payload = frames.receive(connection, size)
    return payload if magic == frames.MAGIC and kind == wanted else None


def make_runner(device, device_id, jit, strict, references, vocabulary):
    if device in ("mindspore", "recorded"):
        import mindspore_operators
        return mindspore_operators.Runner(device, references, vocabulary)
    import operators
    return operators.Runner(device, int(device_id), jit == "jit", strict == "strict", references, vocabulary)


def main():
    die_with_the_program()
    import confine
    import frames
    confine.inherit_nothing(RESULTS)
    connection = socket.socket(fileno=SOCKET)

    def say_ready(failed, message, framework="", device=""):
        writer = frames.Writer(lambda value: None)
        writer.byte(failed)
        for text in (message, framework, device):
            writer.text(text)
        connection.sendall(writer.frame(frames.READY))

    payload = next_frame(connection, frames.START)
    if payload is None:
        return
    scratch, memory, vocabulary = frames.read_start(payload)
    device, device_id, jit, strict, references = sys.argv[1:6]
    try:
        # What the user's own file does while it is loaded is not held back; before any thread is the better time.
        files = "" if references else confine.close_files(scratch, device)
        runner = make_runner(device, device_id, jit, strict, references, vocabulary)
        if references:
            files = confine.close_files(scratch, runner.device.split(":")[0])
    except BaseException as error:  # pylint: disable=broad-except
        where = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
        place = "" if not where or isinstance(error, ImportError) else " (%s, line %d)" % (where[-1].filename, where[-1].lineno)
        say_ready(1, "Python %s: %s%s" % (sys.version.split()[0], first_line(error), place))
        return
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != own]
    runner.take_memory(frames.Memory(ARGUMENTS), frames.Memory(RESULTS))
    on_cpu = runner.device in ("cpu", "recorded")
    calls = confine.close_calls(may_start=runner.compiles, sockets=not on_cpu and not runner.device.startswith("cuda"),
                                read_only=bool(files) and on_cpu)
    if on_cpu:
        confine.bound_memory(memory)
        files = files if calls else None  # the filter holds files as well
    say_ready(0, "; ".join(missing for missing in (files, calls) if missing), runner.framework, runner.device)
    while True:
        payload = next_frame(connection, frames.CALL)
        if payload is None:
            return
        connection.sendall(runner.answer(payload))


main()
