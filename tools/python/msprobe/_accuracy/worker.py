"""Runs operators for msprobe: worker.py DEVICE ID JIT STRICT REFERENCES, started by the program with a socket and two pieces of memory.

Each call comes as a frame and is answered by one, whatever the operator does; what ends this process is told by the program, which
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


def main():
    die_with_the_program()
    import frames
    connection = socket.socket(fileno=SOCKET)

    def say_ready(failure, framework="", device=""):
        writer = frames.Writer(lambda value: None)
        writer.byte(1 if failure else 0)
        for text in (failure, framework, device):
            writer.text(text)
        connection.sendall(writer.frame(frames.READY))

    device, device_id, jit, strict, references = sys.argv[1:6]
    try:
        if device in ("mindspore", "recorded"):
            import mindspore_operators
            runner = mindspore_operators.Runner(device, references)
        else:
            import operators
            runner = operators.Runner(device, int(device_id), jit == "jit", strict == "strict", references)
    except BaseException as error:  # pylint: disable=broad-except
        where = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
        place = "" if not where or isinstance(error, ImportError) else " (%s, line %d)" % (where[-1].filename, where[-1].lineno)
        say_ready("Python %s: %s%s" % (sys.version.split()[0], first_line(error), place))
        return
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != own]
    runner.take_memory(frames.Memory(ARGUMENTS), frames.Memory(RESULTS))
    say_ready("", runner.framework, runner.device)
    while True:
        header = frames.receive(connection, frames.HEADER.size)
        if header is None:
            return
        magic, kind, size = frames.HEADER.unpack(header)
        payload = frames.receive(connection, size)
        if magic != frames.MAGIC or kind != frames.CALL or payload is None:
            return
        connection.sendall(runner.answer(payload))


main()
