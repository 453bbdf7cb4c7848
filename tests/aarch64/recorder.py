"""Stands in for the program in a test: runs it and keeps what it said and what it wrote, without changing either.

Only what is written below the temporary folder counts, which is where tests write. A program on a terminal, or on a device that refuses
what it says, is left alone.
"""
import itertools
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading

PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
LARGEST_BYTES = 64 << 20


def run(program, records, temporary, arguments):
    """Does not return: ends as the program ends, by the same signal or exit code. `program`: its words."""
    if any(is_device(number) for number in (0, 1, 2)):
        os.execv(program[0], program + arguments)
    places = touched_places(temporary, arguments)
    before = look(places)
    folder = new_folder(records)
    code = run_program(program + arguments, folder)
    written = [path for path, identity in look(places).items() if before.get(path) != identity]
    kept = []
    for path in sorted(written):
        try:
            if os.path.getsize(path) <= LARGEST_BYTES:
                shutil.copyfile(path, os.path.join(folder, "file%d" % len(kept)))
                kept.append(os.path.relpath(path, temporary))
        except OSError:
            pass  # removed meanwhile: another process of the test
    with open(os.path.join(folder, "call.json"), "w", encoding="utf-8") as file:
        json.dump({"arguments": arguments, "folder": os.getcwd(), "code": code, "files": kept}, file)
    if code < 0:
        signal.signal(-code, signal.SIG_DFL) if -code not in (signal.SIGKILL, signal.SIGSTOP) else None
        os.kill(os.getpid(), -code)
    os._exit(code)


def is_device(number):
    try:
        about = os.fstat(number)
    except OSError:
        return True  # closed: the program is to find it so
    return stat.S_ISCHR(about.st_mode) and about.st_rdev != os.stat(os.devnull).st_rdev


def touched_places(temporary, arguments):
    """The folders of this test that the call knows of: first level below the temporary folder."""
    places = set()
    for text in [os.getcwd()] + [os.path.abspath(argument.rpartition("=")[2]) for argument in arguments]:
        if text.startswith(temporary + "/"):
            places.add(temporary + "/" + text[len(temporary) + 1:].split("/")[0])
    return places or {temporary}


def look(places):
    """Identity of every regular file below: a file that is written again has another one."""
    found = {}
    for place in places:
        for folder, _, names in os.walk(place):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    about = os.lstat(path)
                except OSError:
                    continue
                if stat.S_ISREG(about.st_mode):
                    found[path] = (about.st_ino, about.st_size, about.st_mtime_ns)
    return found


def new_folder(records):
    for number in itertools.count():
        folder = os.path.join(records, "%05d" % number)
        try:
            os.makedirs(folder)
            return folder
        except FileExistsError:
            continue


def run_program(words, folder):
    """The exit code, negative for a signal. Both streams are passed on as they come; where both go to one place they are one, in the
    program's order."""
    together = os.path.sameopenfile(1, 2)
    # The streams that a shell hands over in names such as /dev/fd/63 are the program's.
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT if together else subprocess.PIPE, close_fds=False)
    for number in PASSED_ON:  # whether one is ignored is the program's to say
        signal.signal(number, lambda received, _: child.send_signal(received))
    threads = []
    for stream, target, name in ((child.stdout, 1, "stdout"), (child.stderr, 2, "stderr")):
        if stream is None:
            open(os.path.join(folder, name), "wb").close()
            continue
        threads.append(threading.Thread(target=pass_on, args=(stream.fileno(), target, os.path.join(folder, name))))
        threads[-1].start()
    code = child.wait()
    for thread in threads:
        thread.join()
    return code


def pass_on(source, target, path):
    with open(path, "wb") as kept:
        while True:
            data = os.read(source, 1 << 16)
            if not data:
                return
            kept.write(data)
            try:
                at = 0
                while at < len(data):
                    at += os.write(target, data[at:])
            except OSError:
                target = os.open(os.devnull, os.O_WRONLY)  # nobody reads any more; what is said is kept all the same
