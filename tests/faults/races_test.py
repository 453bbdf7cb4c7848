#!/usr/bin/env python3
"""What others do to files and clocks while msprobe runs: inputs that change while they are read, places that cannot be written, many
writers at once, a clock that goes back, symbolic links where a result is being written.

usage: races_test.py MSPROBE INJECTOR TRAINING REPOSITORY [TEST...]
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path

import commands
import sweep
from page_tests import has_pages  # a folder that commands.py adds to the path

MSPROBE = INJECTOR = TRAINING = REPOSITORY = None
RANKS = 200
RUNS = 25  # beside something that changes all the time
NOBODY = 65534


def become_nobody():
    os.setgid(NOBODY)
    os.setuid(NOBODY)


class Beside(threading.Thread):
    """Does something again and again until the block ends."""

    def __init__(self, act):
        super().__init__(daemon=True)
        self.act, self.going, self.count, self.error = act, True, 0, None

    def run(self):
        while self.going:
            try:
                self.act(self.count)
            except OSError as error:
                self.error = error
            self.count += 1

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.going = False
        self.join()


class Races(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="msprobe_races_")).resolve()
        self.addCleanup(shutil.rmtree, str(self.folder), True)
        self.folder.chmod(0o755)
        self.example = REPOSITORY / "docs/example/npu/step0/rank"

    def call(self, *words, plan=None, environment=(), wanted=None, **more):
        given = {key: value for key, value in os.environ.items() if not key.startswith(("MSPROBE_", "FAULT_"))}
        given.update(environment)
        if plan:
            (self.folder / "plan").write_text("".join("%s %s\n" % pair for pair in plan.items()))
            given.update(LD_PRELOAD=str(INJECTOR), FAULT_PLAN=str(self.folder / "plan"))
        ended = subprocess.run([str(word) for word in words], cwd=str(self.folder), env=given, stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, universal_newlines=True, check=False, **more)
        if wanted is not None:
            self.assertEqual(ended.returncode, wanted, ended.stderr)
        return ended

    def leftovers(self, *folders):
        return [str(path) for folder in folders or [self.folder] for path in Path(folder).rglob("*")
                if sweep.UNFINISHED.search(str(path.relative_to(folder)))]

    # ---- inputs ----

    def check_changing_input(self, name, words, change):
        """Runs beside `change`, which gets the path and the bytes of the input: a right answer or a message, never a crash."""
        source = self.example / name if not Path(name).is_absolute() else Path(name)
        data = source.read_bytes()
        path = self.folder / source.name
        path.write_bytes(data)
        codes = set()
        with Beside(lambda count: change(path, data, count)) as beside:
            for number in range(RUNS):
                ended = self.call(MSPROBE, *words(path), "-o", "result%d.csv" % number)
                self.assertIn(ended.returncode, (0, 3), ended.stderr)
                codes.add(ended.returncode)
                if ended.returncode == 3:
                    self.assertRegex(ended.stderr, re.escape(path.name))
        self.assertGreater(beside.count, 5)
        for table in self.folder.glob("result*.csv"):
            self.assertTrue(sweep.is_whole(table))
        self.assertEqual([name for name in self.leftovers() if "result" in name], [])
        return codes

    @staticmethod
    def cut_and_grow(path, data, count):
        with open(str(path), "r+b") as file:
            file.truncate(len(data) * (count % 7) // 7)
            file.seek(0, os.SEEK_END)
            file.write(data[file.tell():])

    @staticmethod
    def replace(path, data, count):
        temporary = str(path) + ".new"
        Path(temporary).write_bytes(data if count % 2 else data[:len(data) // 2])
        os.rename(temporary, str(path))

    @staticmethod
    def grow(path, data, count):
        if count % 50 == 0:
            path.write_bytes(data)
        with open(str(path), "ab") as file:
            file.write(b" " * 4096)

    def test_a_dump_that_is_cut_and_grows_while_it_is_read(self):
        self.check_changing_input("dump.json", lambda path: ["show", path, "--format", "csv"], self.cut_and_grow)

    def test_a_dump_that_is_replaced_while_it_is_read(self):
        self.check_changing_input("dump.json", lambda path: ["show", path, "--format", "csv"], self.replace)

    def test_a_dump_that_grows_while_it_is_read(self):
        self.check_changing_input("dump.json", lambda path: ["show", path, "--format", "csv"], self.grow)

    def make_tensor(self):
        """A file that is mapped, not read."""
        import numpy
        path = self.folder / "made/tensor.npy"
        path.parent.mkdir()
        numpy.save(str(path), numpy.arange(200000, dtype=numpy.float32))
        return path

    def test_a_mapped_tensor_that_is_cut_and_grows_while_it_is_read(self):
        self.check_changing_input(self.make_tensor(), lambda path: ["show", path, "--stats", "--format", "csv"], self.cut_and_grow)

    def test_a_mapped_tensor_that_is_replaced_while_it_is_read(self):
        self.check_changing_input(self.make_tensor(), lambda path: ["show", path, "--stats", "--format", "csv"], self.replace)

    def test_a_tensor_that_is_cut_is_no_success_where_its_figures_were_asked_for(self):
        path = self.folder / "large.npy"
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (100000000,), }".ljust(117) + b"\n"
        for _ in range(RUNS):
            with open(str(path), "wb") as file:
                file.write(b"\x93NUMPY\x01\x00" + bytes([len(header), 0]) + header)
                file.truncate(10 + len(header) + 400000000)
            running = subprocess.Popen([str(MSPROBE), "show", path.name, "--stats"], cwd=str(self.folder), stdin=subprocess.DEVNULL,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True)
            # It has begun to read, or is about to, and takes longer for that than the cut.
            while running.poll() is None and path.name not in Path("/proc/%d/maps" % running.pid).read_text():
                pass
            os.truncate(str(path), 4096)
            stdout, stderr = running.communicate(timeout=120)
            if "shrank while it was read" in stdout:
                break
        self.assertIn("shrank while it was read", stdout, "it was always read before the cut, or opened after it")
        self.assertEqual(running.returncode, 3, stdout)
        self.assertIn("large.npy: 1 tensor could not be read", stderr)

    def test_a_dump_that_vanishes_and_comes_back_while_it_is_compared(self):
        shutil.copytree(str(self.example), str(self.folder / "dump"))

        def move(_):
            os.rename(str(self.folder / "dump"), str(self.folder / "away"))
            os.rename(str(self.folder / "away"), str(self.folder / "dump"))
        with Beside(move):
            for number in range(RUNS):
                ended = self.call(MSPROBE, "compare", "dump", self.example, "-o", "out%d" % number, "-q")
                self.assertIn(ended.returncode, (0, 2, 3), ended.stderr)
                if ended.returncode:
                    self.assertIn("dump", ended.stderr)
        self.assertEqual(self.leftovers(), [])

    # ---- places ----

    def test_a_folder_that_cannot_be_written(self):
        closed = self.folder / "closed"
        closed.mkdir(mode=0o555)
        more = {"preexec_fn": become_nobody} if os.geteuid() == 0 else {}
        try:
            readable = self.call(MSPROBE, "--version", **more).returncode == 0
        except OSError:
            readable = False
        if not readable:
            self.skipTest("the program cannot be run by another user here")
        places = commands.make_places(REPOSITORY, self.folder / "inputs")
        written = 0
        for line in commands.all_lines():
            words = commands.words_of(line, places)
            if "out" not in " ".join(words) or line.prepare:
                continue
            if line.name == "monitor report" and not has_pages(MSPROBE):
                continue  # refused before it looks at the folder
            words = [re.sub(r"^out\b", "closed", word) for word in words]
            if not any(word.startswith("closed") for word in words):
                continue
            with self.subTest(line.name):
                written += 1
                ended = self.call(MSPROBE, *words, **more)
                self.assertIn(ended.returncode, (2, 3), ended.stderr)
                self.assertRegex(ended.stderr, "closed")
                self.assertEqual(os.listdir(str(closed)), [])
        self.assertGreater(written, 15)

    def test_a_read_only_file_system(self):
        mounted = self.folder / "mounted"
        mounted.mkdir()
        script = 'mount -t tmpfs -o ro none mounted && "$@"'
        ended = self.call("unshare", "-m", "sh", "-c", script, "sh", MSPROBE, "show", self.example / "dump.json", "-o", "mounted/rows.csv")
        if "unshare" in ended.stderr or "mount:" in ended.stderr or "mount(" in ended.stderr:
            self.skipTest("no mounts here: " + ended.stderr.strip())
        self.assertEqual(ended.returncode, 3, ended.stderr)
        self.assertIn("mounted/rows.csv", ended.stderr)

    def test_without_a_folder_for_temporary_files(self):
        places = commands.make_places(REPOSITORY, self.folder / "inputs")
        for line in commands.all_lines():
            with self.subTest(line.name):
                outcomes = []
                for place in (str(self.folder), "/nowhere/at/all", "/proc"):
                    work = self.folder / "work"
                    shutil.rmtree(str(work), ignore_errors=True)
                    (work / "out").mkdir(parents=True)
                    if line.prepare:
                        line.prepare(places, work)
                    ended = subprocess.run([str(MSPROBE)] + commands.words_of(line, places), cwd=str(work), stdin=subprocess.DEVNULL,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=120, check=False,
                                           env=dict(os.environ, TMPDIR=place, MSPROBE_PYTHON_PATH="py"))
                    outcomes.append((ended.returncode, sorted(re.sub(r"\d{10,}", "T", re.sub(r"vm?\.\d+", "P", path.name))
                                                              for path in work.rglob("*") if "events.out" not in path.name)))
                self.assertEqual(outcomes[1:], outcomes[:1] * 2)

    # ---- many at once ----

    def test_two_captures_into_one_folder(self):
        for _ in range(5):
            shutil.rmtree(str(self.folder / "dump"), ignore_errors=True)
            running = [subprocess.Popen([str(TRAINING), "dump"], cwd=str(self.folder), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        universal_newlines=True) for _ in range(2)]
            self.check_said(running)
            self.check_dump(2)

    def check_said(self, running):
        """All say the same result; what each wrote to the standard error."""
        ended = [process.communicate(timeout=120) + (process.returncode,) for process in running]
        self.assertEqual({(out, code) for out, _, code in ended}, {("loss 1146.750000000\n", 5)}, ended[:3])
        return [errors for _, errors, _ in ended]

    def check_dump(self, steps):
        """Each step is complete, and all of it can be read."""
        manifests = list((self.folder / "dump").rglob("manifest.json"))
        self.assertGreaterEqual(len(manifests), steps)
        self.assertEqual([str(path) for path in manifests if not json.loads(path.read_text())["complete"]], [])
        self.assertEqual(self.leftovers(self.folder / "dump"), [])
        shown = self.call(MSPROBE, "show", "dump", wanted=0)
        self.assertNotRegex(shown.stdout + shown.stderr, "interrupted|unreadable|missing|truncated")

    def test_hundreds_of_ranks_written_at_once(self):
        running = [subprocess.Popen([str(TRAINING), "dump", str(rank)], cwd=str(self.folder), stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, universal_newlines=True, env=dict(os.environ, MSPROBE_RUN_ID="one"))
                   for rank in range(RANKS)]
        # Before a process knows its rank all of them want the folder "rank", and are told so.
        for errors in self.check_said(running):
            self.assertRegex(errors, r"^(.*step0/rank is being written by another process.*\nhint:.*\n)?$")
        for step in (self.folder / "dump").iterdir():
            for rank in step.iterdir():
                self.assertTrue(json.loads((rank / "manifest.json").read_text())["complete"], str(rank))
        self.assertEqual(len(list((self.folder / "dump/step1").iterdir())), RANKS)
        self.assertEqual(self.leftovers(self.folder / "dump"), [])
        self.call(MSPROBE, "show", "dump", wanted=0)
        self.call(MSPROBE, "compare", "dump", "dump", "-o", "out", "-q", wanted=0)
        self.assertEqual(len(list((self.folder / "out/step1").glob("*.xlsx"))), RANKS)
        self.assertEqual(self.leftovers(self.folder / "out"), [])

    def test_results_written_into_one_folder_by_many(self):
        count = 24
        running = [subprocess.Popen([str(MSPROBE), "compare", str(self.example), str(self.example), "-o", "out", "-q"],
                                    cwd=str(self.folder), stderr=subprocess.PIPE, universal_newlines=True) for _ in range(count)]
        for process in running:
            errors = process.communicate(timeout=120)[1]
            self.assertEqual(process.returncode, 0, errors)
        self.assertEqual(len(list((self.folder / "out").glob("*.xlsx"))), count)
        self.assertEqual(len(list((self.folder / "out").glob("summary*.json"))), count)
        self.assertEqual(self.leftovers(), [])

    def test_a_run_that_was_killed_keeps_no_name_for_itself(self):
        plan = {"program": "msprobe", "clock": "frozen", "process": 7}
        words = [MSPROBE, "compare", self.example, self.example, "-o", "out", "-q"]
        self.call(*words, plan=dict(plan, call="rename", at=1, last=1, how="kill"), wanted=-9)
        self.assertTrue(self.leftovers())
        self.call(*words, plan=plan, wanted=0)
        self.assertEqual([name for name in os.listdir(str(self.folder / "out")) if name.endswith("_1.xlsx")], [])
        self.assertEqual([name for name in self.leftovers() if name.endswith(".reserved")], [])

    def test_a_command_removes_what_killed_ones_left(self):
        places = commands.make_places(REPOSITORY, self.folder / "inputs")
        lines = {line.name: line for line in commands.all_lines()}
        for name, call in (("config_check -c", "rename"), ("config_check -c", "write"), ("monitor csv2db", "rename"), ("compare", "write"),
                           ("ckpt_compare csv", "rename"), ("show -o csv", "rename"), ("show -o csv", "write")):
            with self.subTest(name=name, call=call):
                shutil.rmtree(str(self.folder / "out"), ignore_errors=True)
                (self.folder / "out").mkdir()
                words = [MSPROBE] + commands.words_of(lines[name], places)
                self.call(*words, plan={"program": "msprobe", "call": call, "at": 1, "last": 1, "how": "kill"}, wanted=-9)
                self.assertTrue(self.leftovers(self.folder / "out"))
                self.call(*words)
                self.assertEqual(self.leftovers(self.folder / "out"), [])

    def test_a_launcher_removes_what_killed_ones_left(self):
        there = self.folder / "temporary"
        there.mkdir()
        given = {"TMPDIR": str(there), "MSPROBE_PYTHON_PATH": str(REPOSITORY / "tools/python")}
        words = [MSPROBE, "dump", "-o", "dump", "--"]
        launcher = subprocess.Popen([str(word) for word in words + ["sleep", "100"]], cwd=str(self.folder), env=dict(os.environ, **given))
        try:
            deadline = time.monotonic() + 20
            while not list(there.iterdir()) and time.monotonic() < deadline:
                time.sleep(0.01)
            self.assertEqual(len(list(there.iterdir())), 1)
            self.call(*words, "true", environment=given)
            self.assertEqual(len(list(there.iterdir())), 1)  # that of a living one stays
        finally:
            children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(launcher.pid)], stdout=subprocess.PIPE, check=False).stdout.split()
            launcher.kill()
            launcher.wait()
            for child in children:
                os.kill(int(child), signal.SIGKILL)
        self.assertEqual(len(list(there.iterdir())), 1)
        self.call(*words, "true", environment=given)
        self.assertEqual(list(there.iterdir()), [])

    # ---- time ----

    def test_a_clock_that_goes_back(self):
        places = commands.make_places(REPOSITORY, self.folder / "inputs")
        for line in commands.all_lines():
            with self.subTest(line.name):
                codes = []
                for plan in ({}, {"clock": "back"}):
                    work = self.folder / "work"
                    shutil.rmtree(str(work), ignore_errors=True)
                    (work / "out").mkdir(parents=True)
                    if line.prepare:
                        line.prepare(places, work)
                    (work / "plan").write_text("".join("%s %s\n" % pair for pair in dict(plan, program="msprobe").items()))
                    ended = subprocess.run([str(MSPROBE)] + commands.words_of(line, places), cwd=str(work), stdin=subprocess.DEVNULL,
                                           stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=60, check=False,
                                           env=dict(os.environ, LD_PRELOAD=str(INJECTOR), FAULT_PLAN=str(work / "plan"),
                                                    MSPROBE_PYTHON_PATH="py"))
                    codes.append((ended.returncode, len([path for path in work.rglob("*") if path.is_file()])))
                self.assertEqual(codes[0], codes[1], ended.stderr)

    def test_a_clock_that_goes_back_while_a_training_is_captured(self):
        ended = self.call(TRAINING, "dump", plan={"program": TRAINING.name, "clock": "back"}, wanted=5)
        self.assertEqual(ended.stderr, "")
        self.check_dump(2)

    # ---- links ----

    def test_a_link_that_appears_under_the_name_of_a_result(self):
        victim = self.folder / "victim"
        victim.write_text("mine")
        (self.folder / "out").mkdir()
        name = self.folder / "out/rows.csv"

        def swap(count):
            temporary = self.folder / "out/swap"
            if count % 2:
                os.symlink(str(victim), str(temporary))
            else:
                temporary.write_text("")
            os.rename(str(temporary), str(name))
        with Beside(swap) as beside:
            for _ in range(4 * RUNS):
                ended = self.call(MSPROBE, "show", self.example / "dump.json", "--format", "csv", "-o", "out/rows.csv", "--force")
                self.assertIn(ended.returncode, (0, 2, 3), ended.stderr)
        self.assertGreater(beside.count, 100)
        self.assertEqual(victim.read_text(), "mine")
        self.assertEqual(self.leftovers(), [])

    def test_a_folder_that_is_exchanged_for_a_link_while_a_result_is_written(self):
        for name in ("out", "other"):
            (self.folder / name).mkdir()

        def swap(_):
            os.rename(str(self.folder / "out"), str(self.folder / "moved"))
            os.symlink("other", str(self.folder / "out"))
            time.sleep(0.001)
            os.unlink(str(self.folder / "out"))
            os.rename(str(self.folder / "moved"), str(self.folder / "out"))
        with Beside(swap) as beside:
            for number in range(4 * RUNS):
                ended = self.call(MSPROBE, "show", self.example / "dump.json", "--format", "csv", "-o", "out/rows%d.csv" % number)
                self.assertIn(ended.returncode, (0, 2, 3), ended.stderr)
        self.assertGreater(beside.count, 20)
        self.assertIsNone(beside.error)
        self.assertEqual(self.leftovers(), [])
        for path in self.folder.rglob("rows*.csv"):
            self.assertTrue(sweep.is_whole(path))

    def test_links_in_the_place_of_what_a_capture_writes(self):
        victim = self.folder / "victim"
        for place in ("step0", "step0/rank0", "step0/rank0/records.log", "step0/rank0/dump.json", "step0/rank0/manifest.json",
                      "step0/rank0/dump_tensor_data", "step0/rank0/dump_tensor_data/Functional.linear.0.forward.input.0.pt"):
            with self.subTest(place):
                shutil.rmtree(str(self.folder / "dump"), ignore_errors=True)
                shutil.rmtree(str(victim), ignore_errors=True)
                victim.mkdir()
                (victim / "file").write_text("mine")
                link = self.folder / "dump" / place
                link.parent.mkdir(parents=True)
                os.symlink(str(victim if "." not in link.name else victim / "file"), str(link))
                ended = self.call(TRAINING, "dump", wanted=5, environment={"MSPROBE_REPLACE_DUMP": "1"})
                self.assertTrue(ended.stdout.startswith("loss 1146.75"))
                self.assertEqual((victim / "file").read_text(), "mine")
                self.assertEqual(os.listdir(str(victim)), ["file"])


if __name__ == "__main__":
    MSPROBE, INJECTOR, TRAINING, REPOSITORY = (Path(path).resolve() for path in sys.argv[1:5])
    unittest.main(argv=sys.argv[:1] + sys.argv[5:])
