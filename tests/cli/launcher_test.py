#!/usr/bin/env python3
"""`msprobe dump -- PROGRAM` and `msprobe monitor run -- PROGRAM`: the program is run as a shell would run it, and the starter that Python
loads stays out of the way. What is captured is tested with a framework, in tests/python.

usage: launcher_test.py MSPROBE REPOSITORY
"""
import json
import os
import pty
import signal
import subprocess
import sys
import tempfile
import time
import unittest

MSPROBE = None
PACKAGE = None
SAY_WHEN_READY = "print('ready', flush=True)\n"


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="msprobe launcher,")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.write("monitor.json", "{}")

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def write(self, name, text):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def start(self, *program, flags=("-q",), variables=None, monitor=False, **options):
        """The launcher of `program`, in a folder whose name has a space and a comma."""
        environment = dict(os.environ, MSPROBE_PYTHON_PATH=PACKAGE, TMPDIR=self.folder)
        environment.pop("PYTHONPATH", None)
        environment.update(variables or {})
        environment = {name: value for name, value in environment.items() if value is not None}
        dump = "/tmp/msprobe_launcher_test_dump"  # never made: nothing is captured without a framework
        command = ["monitor", "run", "-c", "monitor.json"] if monitor else ["dump", "-o", dump]
        return subprocess.Popen([MSPROBE] + command + list(flags) + ["--"] + list(program), cwd=self.folder, env=environment,
                                **dict(dict(stdout=subprocess.PIPE, stderr=subprocess.PIPE), **options))

    def run_program(self, *program, **options):
        """(exit code, stdout, stderr)"""
        process = self.start(*program, **options)
        output, said = process.communicate(timeout=60)
        return process.returncode, os.fsdecode(output or b""), os.fsdecode(said or b"")

    def run_python(self, code, *flags, **options):
        return self.run_program(sys.executable, *flags, "-c", code, **options)


class Ends(Case):
    def test_every_exit_code_is_kept(self):
        for code in list(range(0, 256, 15)) + [1, 2, 3, 4, 5, 126, 127, 128, 130, 137, 143]:
            for monitor in (False, True):
                self.assertEqual(self.run_program("sh", "-c", "exit %d" % code, monitor=monitor)[0], code)

    def test_every_deadly_signal_is_kept(self):
        for number in (1, 2, 3, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 24, 31, 34, 64):
            self.assertEqual(self.run_program("sh", "-c", "kill -%d $$" % number)[0], -number)

    def test_signals_are_passed_on_and_the_script_decides(self):
        for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"):
            number = getattr(signal, name)
            handled = ("import signal, sys, time\nsignal.signal(%d, lambda *_: (print('got it'), sys.exit(42)))\n" % number
                       + SAY_WHEN_READY + "time.sleep(60)")
            default = "import signal, time\nsignal.signal(%d, signal.SIG_DFL)\n" % number + SAY_WHEN_READY + "time.sleep(60)"
            for code, end, says in ((handled, 42, b"got it\n"), (default, -number, b"")):
                process = self.start(sys.executable, "-c", code)
                self.assertEqual(process.stdout.readline(), b"ready\n")
                process.send_signal(number)
                self.assertEqual((process.communicate(timeout=60)[0], process.returncode), (says, end), name)

    def test_a_signal_that_was_ignored_stays_ignored(self):
        code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
        ignoring = {"preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)}
        self.assertEqual(self.run_python(code, **ignoring)[1], "True\n")
        self.assertEqual(self.run_python(code)[1], "False\n")


    def test_the_first_process_of_a_container_ends_as_the_program_did(self):
        container = ["unshare", "--mount", "--pid", "--fork", "--mount-proc"]
        if subprocess.run(container + ["true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no namespaces can be made here: unshare needs root")
        environment = dict(os.environ, MSPROBE_PYTHON_PATH=PACKAGE)
        for subcommand in (["dump", "-o", "/tmp/msprobe_launcher_test_dump"], ["monitor", "run", "-c", "monitor.json"]):
            for number in (signal.SIGTERM, signal.SIGKILL):
                run = subprocess.run(container + [MSPROBE] + subcommand + ["-q", "--", "sh", "-c", "kill -%d $$" % number],
                                     cwd=self.folder, env=environment, stderr=subprocess.DEVNULL)
                self.assertEqual(run.returncode, 128 + number, subcommand)

    def test_the_first_process_of_a_container_waits_for_orphans(self):
        container = ["unshare", "--mount", "--pid", "--fork", "--mount-proc"]
        if subprocess.run(container + ["true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no namespaces can be made here: unshare needs root")
        code = ("import os, subprocess, sys, time\n"
                "subprocess.run(['sh', '-c', 'sleep 0.1 & echo $! > orphan'])\n"
                "orphan = '/proc/' + open('orphan').read().strip()\n"
                "for _ in range(200):\n"
                "    if not os.path.exists(orphan): sys.exit(0)\n"
                "    time.sleep(0.05)\n"
                "sys.exit(1)")
        run = subprocess.run(container + [MSPROBE, "dump", "-o", "/tmp/msprobe_launcher_test_dump", "-q", "--", sys.executable, "-c", code],
                             cwd=self.folder, env=dict(os.environ, MSPROBE_PYTHON_PATH=PACKAGE))
        self.assertEqual(run.returncode, 0)

    def test_runs_in_containers_without_proc_are_different_runs(self):
        if os.environ.get("MSPROBE_SANITIZE"):
            self.skipTest("a sanitizer reads /proc itself and says so, or fails, where it is hidden")
        container = ["unshare", "--mount", "--pid", "--fork", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
        if subprocess.run(container + ["true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no namespaces can be made here: unshare needs root")
        command = [MSPROBE, "dump", "-o", "/tmp/msprobe_launcher_test_dump", "-q", "--", "sh", "-c", "echo $MSPROBE_RUN_ID"]
        runs = {subprocess.run(container + command, stdout=subprocess.PIPE, check=True,
                               env=dict(os.environ, MSPROBE_PYTHON_PATH=PACKAGE)).stdout for _ in range(2)}
        self.assertEqual(len(runs), 2, runs)


class Surroundings(Case):
    def test_standard_input_and_other_open_files_are_the_programs(self):
        process = self.start("cat", stdin=subprocess.PIPE)
        self.assertEqual(process.communicate(b"a line\n", timeout=60)[0], b"a line\n")
        read, write = os.pipe()
        self.run_program("sh", "-c", "echo extra >&%d" % write, pass_fds=(write,))
        self.assertEqual(os.read(read, 100), b"extra\n")
        os.close(read)
        os.close(write)

    def test_closed_standard_files_stay_closed(self):
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            code = "import sys; open('found', 'w').write(repr(sys.%s))" % name
            self.run_python(code, stdout=None, stderr=None, preexec_fn=lambda number=number: os.close(number))
            with open(self.path("found"), encoding="utf-8") as file:
                self.assertEqual(file.read(), "None", name)

    def test_a_terminal_is_the_programs(self):
        master, slave = pty.openpty()
        code = "import os; open('found', 'w').write(repr([os.isatty(number) for number in range(3)]))"
        self.assertEqual(self.run_python(code, stdin=slave, stdout=slave, stderr=slave)[0], 0)
        os.close(slave)
        os.close(master)
        with open(self.path("found"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "[True, True, True]")

    def test_arguments_and_variables_of_any_bytes_arrive(self):
        odd = "a b,c\n\udcff\x1b[31m'\"$"
        code = "import os, sys; sys.exit(sys.argv[1] != %a or os.environ['ODD'] != %a)" % (odd, odd)
        self.assertEqual(self.run_program(sys.executable, "-c", code, odd, variables={"ODD": odd})[0], 0)

    def test_variables_of_the_user_stay(self):
        code = "import os; print(os.environ.get('LD_PRELOAD'), os.environ['LD_LIBRARY_PATH'], os.environ['PYTHONPATH'].split(':')[1:])"
        # The loader says on stderr what it cannot load, with and without msprobe.
        output = self.run_python(code, variables={"LD_PRELOAD": "/none.so", "LD_LIBRARY_PATH": "/none", "PYTHONPATH": "mine::yours:"})[1]
        self.assertEqual(output, "/none.so /none ['mine', '', 'yours', '']\n")

    def test_places_that_are_missing_do_not_matter(self):
        for variables in ({"HOME": None}, {"HOME": "/none"}, {"TMPDIR": "/none"}, {"PATH": None}):
            code, output, said = self.run_program(sys.executable, "-c", "print('ran')", variables=variables)
            self.assertEqual((code, output, said), (0, "ran\n", ""), variables)
        gone = "import os, sys; os.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone'); os.execv(sys.argv[1], sys.argv[1:])"
        dump = [MSPROBE, "dump", "-q", "-o", "/tmp/msprobe_launcher_test_dump", "--", sys.executable, "-c", "print('ran')"]
        run = subprocess.run([sys.executable, "-c", gone] + dump, cwd=self.folder, stdout=subprocess.PIPE, check=True,
                             env=dict(os.environ, MSPROBE_PYTHON_PATH=PACKAGE))
        self.assertEqual(run.stdout, b"ran\n")

    def test_a_dump_folder_that_readers_do_not_take_is_named(self):
        for folder in ("a b", "a\nb", "a\udcff", "a:b"):
            code, output, said = self.run_program("echo", "ran", flags=("-o", folder))
            self.assertEqual((code, output), (2, ""), folder)
            self.assertIn("-o: dump_path %s is not usable" % folder.replace("\n", "?").replace("\udcff", "?"), said)

    def test_a_folder_that_cannot_be_made_is_told_before_the_program_runs(self):
        code, output, said = self.run_program("sh", "-c", "echo ran; echo ran >&2", flags=("-o", "/dev/null/new"), monitor=True)
        self.assertEqual((code, output), (0, "ran\n"), said)
        self.assertTrue(said.startswith("warning: cannot write to /dev/null/new: /dev/null is not a folder\n"), said)
        for folder, why in (("/dev/null/new", "/dev/null is not a folder"), ("/proc/new", ""), ("/proc/sys/kernel/new/er", "")):
            code, output, said = self.run_program("echo", "ran", flags=("-o", folder))
            self.assertEqual((code, output), (3, ""), said)
            self.assertRegex(said, "error: cannot (write to|make|create) .*" + why)

    def test_the_dump_of_another_run_is_told_before_the_program_runs(self):
        path = tempfile.TemporaryDirectory(prefix="msprobe_launcher_")
        self.addCleanup(path.cleanup)

        def leave(rank, **manifest):
            folder = os.path.join(path.name, "step0", rank)
            os.makedirs(folder, exist_ok=True)
            with open(os.path.join(folder, "manifest.json"), "w") as file:
                json.dump(dict({"complete": True}, **manifest), file)

        def dump(*flags, **variables):
            return self.run_program("echo", "ran", flags=("-o", path.name) + flags, variables=variables)

        with open("/proc/sys/kernel/random/boot_id") as file:
            boot = file.read()[:13]
        with open("/proc/self/stat") as file:
            start = file.read().rpartition(")")[2].split()[19]
        living = "process-%s-%d-%s" % (boot, os.getpid(), start)
        other_node = "process-%s-1-1" % ("0" * 13)
        leave("rank3", run="yesterday", process="process-%s-999999999-1" % boot)
        code, output, said = dump()
        self.assertEqual((code, output), (3, ""), said)
        self.assertIn("/step0/rank3 holds the dump of another run", said)
        self.assertIn("--force", said)
        # What this run may add to, or replaces.
        for flags, variables in ((("--force",), {}), ((), {"MSPROBE_REPLACE_DUMP": "1"}), ((), {"MSPROBE_RUN_ID": "yesterday"}),
                                 ((), {"RANK": "0"})):
            self.assertEqual(dump(*flags, **variables)[1], "ran\n", (flags, variables))
        # Other ranks of a run that goes on, here or on another host.
        for process in (living, other_node):
            leave("rank3", run=process, process=process)
            self.assertEqual(dump()[:2], (0, "ran\n"), process)
        old = time.time() - 86400
        os.utime(os.path.join(path.name, "step0", "rank3", "manifest.json"), (old, old))
        self.assertEqual(dump()[:2], (3, ""))
        leave("rank3")  # by a tool that does not tell whose it is
        self.assertEqual(dump()[:2], (3, ""))

    def test_nothing_is_left_in_the_folder_for_temporary_files(self):
        self.run_program("true")
        self.assertEqual(os.listdir(self.folder), ["monitor.json"])


class Package(Case):
    def path_in_program(self, package, **options):
        return self.run_program("sh", "-c", "cd / && echo $PYTHONPATH", variables={"MSPROBE_PYTHON_PATH": package}, **options)

    def test_a_relative_folder_is_found_wherever_the_script_goes(self):
        os.symlink(PACKAGE, self.path("package"))
        self.assertEqual(self.path_in_program("package")[1].strip(), self.path("package", "msprobe", "_inject"))

    def test_a_folder_without_the_package_is_named_and_nothing_runs(self):
        code, output, said = self.path_in_program("/none\x1b[31m")
        self.assertEqual((code, output), (3, ""))
        self.assertIn("MSPROBE_PYTHON_PATH is /none?[31m, which does not contain the Python package msprobe", said)

    def test_a_colon_would_end_the_folder_in_PYTHONPATH(self):
        os.symlink(PACKAGE, self.path("a:b"))
        code, output, said = self.path_in_program(self.path("a:b"))
        self.assertEqual((code, output), (2, ""))
        self.assertIn("PYTHONPATH cannot name a folder with a colon", said)

    def test_without_proc_it_is_found_by_the_programs_name(self):
        if os.environ.get("MSPROBE_SANITIZE"):
            self.skipTest("a sanitizer reads /proc itself and says so, or fails, where it is hidden")
        hidden = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec "$@"', "sh"]
        if subprocess.run(hidden + ["true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("/proc cannot be hidden here: unshare -m mount needs root")
        # The build has the package beside the program, in ../python.
        environment = {name: value for name, value in os.environ.items() if name != "MSPROBE_PYTHON_PATH"}
        run = subprocess.run(hidden + [MSPROBE, "dump", "-q", "-o", "/tmp/msprobe_launcher_test_dump", "--", "sh", "-c", "echo $PYTHONPATH"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
        if b"is not beside" in run.stderr:
            self.skipTest("this build has no Python package")
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        self.assertIn(b"/msprobe/_inject", run.stdout)


class Starter(Case):
    """What Python loads before the script: a sitecustomize.py in front of the user's own."""

    def alone(self, code, *flags, variables=None):
        run = subprocess.run([sys.executable, *flags, "-c", code], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             env=dict(os.environ, **variables))
        return run.returncode, run.stdout.decode(), run.stderr.decode()

    def test_the_users_own_sitecustomize_runs_and_fails_as_without_msprobe(self):
        code = "import sys; print(getattr(sys.modules.get('sitecustomize'), '__file__', None), sys.argv)"
        for body in ("import sys; print('mine')", "raise RuntimeError('a mistake')", "import no_such_module", "def broken(",
                     "raise ImportError('no', name='sitecustomize')"):
            self.write("site/sitecustomize.py", body)
            variables = {"PYTHONPATH": self.path("site"), "PYTHONDONTWRITEBYTECODE": "1"}
            alone = self.alone(code, variables=variables)
            self.assertTrue("mine" in alone[1] or "Error" in alone[2] or "no" in body)
            self.assertEqual(self.run_python(code, variables=variables), alone, body)

    def test_one_that_ends_python_ends_it(self):
        for body in ("raise SystemExit(5)", "raise KeyboardInterrupt", "import os; os._exit(7)"):
            self.write("site/sitecustomize.py", body)
            variables = {"PYTHONPATH": self.path("site"), "PYTHONDONTWRITEBYTECODE": "1"}
            self.assertEqual(self.run_python("print('ran')", variables=variables)[:2], self.alone("print('ran')", variables=variables)[:2])

    def test_two_installations_one_in_the_other_run_each_starter_once(self):
        os.symlink(PACKAGE, self.path("other"))
        self.write("site/sitecustomize.py", "print('mine')")
        inner = [MSPROBE, "monitor", "run", "-c", "monitor.json", "-q", "--", sys.executable, "-c", "print('ran')"]
        code, output, said = self.run_program("env", "MSPROBE_PYTHON_PATH=" + self.path("other"), *inner,
                                              variables={"PYTHONPATH": "site"})
        self.assertEqual((code, output, said), (0, "mine\nran\n", ""))

    def test_a_framework_that_cannot_be_imported_fails_as_ever(self):
        self.write("torch.py", "raise OSError('a library is missing')")
        code, _, said = self.run_python("import torch", variables={"PYTHONPATH": "."})
        self.assertEqual(code, 1)
        self.assertIn("OSError: a library is missing", said)
        self.assertNotIn("nothing is captured", said)

    def test_a_capture_that_cannot_start_is_told_and_the_script_runs(self):
        self.write("torch.py", "")  # lacks all that the capture needs
        code, output, said = self.run_python("import torch; print('ran')", variables={"PYTHONPATH": "."})
        self.assertEqual((code, output), (0, "ran\n"))
        self.assertIn("msprobe: nothing is captured", said)


class Reasons(Case):
    """Why nothing was captured."""

    def reasons(self, *program, **options):
        said = {}
        for monitor in (False, True):
            said[monitor] = self.run_program(*program, flags=(), monitor=monitor, **options)[2]
        return said

    def test_no_python_loaded_the_starter(self):
        for program in (["true"], [sys.executable, "-I", "-c", "1"], [sys.executable, "-E", "-c", "1"], [sys.executable, "-S", "-c", "1"],
                        ["env", "-i", sys.executable, "-c", "1"]):
            for said in self.reasons(*program).values():
                self.assertIn("no Python process of the program loaded msprobe", said, program)

    def test_python_did_not_import_the_framework(self):
        for flags in ([], ["-s"], ["-OO"]):
            for said in self.reasons(sys.executable, *flags, "-c", "1").values():
                self.assertIn("imported PyTorch", said)

    def test_the_framework_was_imported_in_a_process_of_the_script(self):
        self.write("torch.py", "")
        code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import torch'])"
        said = self.reasons(sys.executable, "-c", code, variables={"PYTHONPATH": "."})
        self.assertIn("PyTorch was imported, but", said[False])
        self.assertNotIn("nothing was watched: no", said[True])

    def test_a_script_that_failed_is_told_to_have_failed(self):
        said = self.reasons(sys.executable, "-c", "1/0")
        self.assertIn("the script failed with exit code 1", said[False])
        self.assertNotIn("imported", said[False] + said[True])


if __name__ == "__main__":
    MSPROBE = os.path.abspath(sys.argv[1])
    PACKAGE = os.path.join(os.path.abspath(sys.argv[2]), "tools", "python")
    unittest.main(argv=sys.argv[:1], verbosity=1)
