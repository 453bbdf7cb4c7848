"""A command on a terminal of its own."""
import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time

SECONDS = 120
QUIET_SECONDS = 0.05


def run_on_terminal(words, columns=80, stderr=None, **options):
    """(exit status, what the terminal got) of a command whose standard output is the terminal, and the other one where `stderr` names
    no other place. `options`: of Popen."""
    master, slave = pty.openpty()
    try:
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave if stderr is None else stderr, **options)
        end = time.monotonic() + SECONDS
        output = b""
        # `slave` stays open here: what is still on its way when the last writer goes can be lost on a busy machine.
        while True:
            ended = process.poll() is not None
            if select.select([master], [], [], QUIET_SECONDS)[0]:
                output += os.read(master, 65536)
            elif ended:
                return process.returncode, output.decode("utf-8").replace("\r\n", "\n")
            elif time.monotonic() > end:
                process.kill()
                process.wait()
                raise AssertionError("%s did not end in %d s" % (words, SECONDS))
    finally:
        os.close(slave)
        os.close(master)
