"""`msprobe dump -- PROGRAM`: which processes of a program are captured, however Python is started, and that the others change nothing."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

try:
    import torch

    import msprobe  # noqa: F401
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

MSPROBE = os.environ.get("MSPROBE") or shutil.which("msprobe")

# train(n): n steps, each of which multiplies by a matrix of n rows, so that a dump tells whose it is.
COMMON = """
import multiprocessing, os, subprocess, sys
import torch

def train(rows, steps=1):
    model = torch.nn.Linear(2, rows)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()

class Prepared(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return torch.nn.Linear(2, 9)(torch.ones(2)).detach()[:2] * index

def processes_of(kind, target, *arguments):
    process = multiprocessing.get_context(kind).Process(target=target, args=arguments)
    process.start()
    process.join()
    print("ended", process.exitcode)

if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
"""


class Case(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="msprobe_launcher_")
        self.addCleanup(shutil.rmtree, self.folder, True)

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def run_command(self, *program, exit=0, stdin=None, **variables):
        """Captures into the folder "dump"."""
        self.dump = tempfile.mkdtemp(dir=self.folder)
        run = subprocess.run([MSPROBE, "dump", "-o", self.dump, "--level", "L1", "--"] + list(program), cwd=self.folder,
                             env=dict(os.environ, OMP_NUM_THREADS="1", **variables), stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)
        self.output, self.said = run.stdout.decode(), run.stderr.decode()
        self.assertEqual(run.returncode, exit, self.output + self.said)

    def run_script(self, code, **options):
        self.write("script.py", COMMON + "".join("    %s\n" % line for line in code.splitlines()))
        self.run_command(sys.executable, "script.py", **options)

    def rows(self):
        """Of the captured models, by step."""
        found = []
        for step in range(len(os.listdir(self.dump))):
            with open(os.path.join(self.dump, "step%d" % step, "rank", "dump.json"), encoding="utf-8") as file:
                data = json.load(file)["data"]
            found.append(data["Functional.linear.0.forward"]["output"][0]["shape"][-1])
        return found


class Processes(Case):
    def test_workers_of_a_data_loader_are_not_captured_and_say_nothing(self):
        for kind, epochs in (("fork", 2), ("spawn", 1)):
            self.run_script("model = torch.nn.Linear(2, 3)\n"
                            "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
                            "loader = torch.utils.data.DataLoader(Prepared(), batch_size=2, num_workers=2, "
                            "multiprocessing_context=%r)\n"
                            "for epoch in range(%d):\n"
                            "    for batch in loader:\n"
                            "        model(batch).sum().backward()\n"
                            "        optimizer.step()" % (kind, epochs))
            self.assertEqual(self.rows(), [3] * 2 * epochs, kind)
            self.assertNotIn("error", self.said)

    def test_processes_that_train_in_the_place_of_the_first_are_captured(self):
        for kind in ("fork", "spawn"):
            self.run_script("processes_of(%r, train, 4, 2)" % kind)
            self.assertEqual(self.rows(), [4, 4], kind)

    def test_a_process_beside_the_training_leaves_its_dump_alone(self):
        # PyTorch 2 computes no gradients in a fork of a process that did.
        starts = {"fork": "processes_of('fork', torch.nn.Linear(2, 4), torch.ones(1, 2))", "spawn": "processes_of('spawn', train, 4)",
                  "subprocess": "print('ended', subprocess.call([sys.executable, 'other.py']))",
                  "os.fork": "child = os.fork()\n"
                             "if child == 0:\n    torch.nn.Linear(2, 4)(torch.ones(1, 2))\n    os._exit(0)\n"
                             "print('ended', os.waitpid(child, 0)[1])"}
        self.write("other.py", COMMON + "    train(4, 2)")
        for kind, start in starts.items():
            self.run_script("train(3)\n%s\ntrain(3)" % start)
            self.assertEqual(self.rows(), [3, 3], kind)
            self.assertEqual(self.output, "ended 0\n", kind)
            self.assertEqual(self.said.count("is being written by another process"), 1, self.said)

    def test_a_program_that_becomes_another_one_is_captured_as_that(self):
        self.run_script("train(3)\nif len(sys.argv) < 2:\n    os.execv(sys.executable, [sys.executable, 'script.py', 'again'])\n"
                        "train(4)\nos._exit(9)", exit=9)
        self.assertEqual(self.rows(), [3, 4])

    def test_a_training_in_a_thread_is_captured(self):
        self.run_script("import threading\nthread = threading.Thread(target=train, args=(3, 2))\nthread.start()\nthread.join()")
        self.assertEqual(self.rows(), [3, 3])


class Starts(Case):
    TRAIN = COMMON + "    train(3)\n"

    def captured(self, *program, **options):
        self.run_command(*program, **options)
        self.assertEqual(self.rows(), [3], program)

    def test_however_python_is_started(self):
        script = self.write("a script, of mine.py", self.TRAIN)
        self.write("package/__main__.py", self.TRAIN)
        executable = self.write("executable.py", "#!%s\n%s" % (sys.executable, self.TRAIN))
        os.chmod(executable, 0o755)
        self.captured(sys.executable, "-s", "-B", "-OO", script)
        self.captured(sys.executable, "-c", self.TRAIN)
        self.captured(sys.executable, "-m", "package")
        self.captured(executable)
        self.captured("sh", "-c", "cd / && %s - < '%s'" % (sys.executable, script))
        if sys.version_info >= (3, 11):
            self.captured(sys.executable, "-P", script)

    def test_of_a_program_that_first_looks_whether_the_packages_are_there(self):
        looking = "import importlib.util, sys; assert all(map(importlib.util.find_spec, ['torch', 'msprobe'])), 'missing'\n"
        self.captured(sys.executable, self.write("looking.py", looking + self.TRAIN))

    def test_in_a_virtual_environment_whose_sitecustomize_fails(self):
        made = subprocess.run([sys.executable, "-m", "venv", "--without-pip", "--system-site-packages", "environment"],
                              cwd=self.folder, stderr=subprocess.PIPE)
        if made.returncode != 0:
            self.skipTest("no virtual environment can be made here: " + made.stderr.decode().strip())
        libraries = "environment/lib/python%d.%d/site-packages/" % sys.version_info[:2]
        self.write(libraries + "sitecustomize.py", "raise RuntimeError('a mistake of the environment')")
        python = os.path.join(self.folder, "environment", "bin", "python")
        script = self.write("script.py", self.TRAIN)
        # Of an environment that is made by the Python of another one, the packages of the system are those of neither.
        torch_in = os.path.dirname(os.path.dirname(torch.__file__))
        found_in = [os.path.join(self.folder, libraries), os.environ.get("PYTHONPATH", ""), torch_in]
        self.captured(python, script, PYTHONPATH=":".join(found_in))
        self.assertIn("RuntimeError: a mistake of the environment", self.said)

    def test_where_no_shared_memory_and_no_proc_is(self):
        script = self.write("script.py", self.TRAIN)
        hidden = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o ro none /dev/shm && mount -t tmpfs none /proc && exec "$@"', "sh"]
        if subprocess.run(hidden + ["true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("/proc and /dev/shm cannot be hidden here: unshare -m mount needs root")
        self.captured(*hidden, sys.executable, script)

    def test_where_names_are_no_utf8(self):
        script = self.write("folder\udcff/script\udcff.py", self.TRAIN)
        config = self.write("folder\udcff/config.json", '{"dump_path": "%s/configured", "level": "L1"}' % self.folder)
        variables = {}
        if sys.version_info < (3, 13):  # which imports no extension module from such a folder
            variables["MSPROBE_PYTHON_PATH"] = os.path.join(self.folder, "package\udcff")
            os.symlink(os.path.dirname(os.path.dirname(sys.modules["msprobe"].__file__)), variables["MSPROBE_PYTHON_PATH"])
        self.captured(sys.executable, script, "argument\udcff", **variables)
        run = subprocess.run([MSPROBE, "dump", "-c", config, "--", sys.executable, script], cwd=self.folder, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, timeout=300)
        self.assertIn(b"captured 1 step", run.stderr)

    def test_messages_about_names_that_are_no_utf8_do_no_harm(self):
        code = "from msprobe._intercept import runtime; runtime.log(3, 'name\\udcff'); runtime.report('name\\udcff', ValueError('\\ud800'))"
        run = subprocess.run([sys.executable, "-c", code], stderr=subprocess.PIPE, timeout=60)
        self.assertEqual((run.returncode, b"name\\udcff" in run.stderr), (0, True), run.stderr)

    def test_in_a_folder_that_has_been_deleted(self):
        script = self.write("script.py", self.TRAIN.replace("train(3)", "train(3, 3); print('trained')"))
        gone = ["sh", "-c", "mkdir gone; cd gone; rmdir ../gone; exec \"$@\"", "sh"]
        if subprocess.run(gone + [sys.executable, script], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("this PyTorch needs a working directory, with or without msprobe")
        def dumped(folder):
            return subprocess.run(gone + [MSPROBE, "dump", "-o", folder, "--", sys.executable, script], cwd=self.folder,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)

        run = dumped(os.path.join(self.folder, "dump"))
        self.assertEqual((run.returncode, run.stdout), (0, b"trained\n"), run.stderr.decode())
        self.assertIn(b"captured 3 steps", run.stderr)
        # What cannot be written is said before hours of training, not after them.
        run = dumped("dump")
        self.assertEqual((run.returncode, run.stdout), (3, b""), run.stderr.decode())
        self.assertIn(b"cannot write to dump: the current folder has been deleted", run.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=1)
