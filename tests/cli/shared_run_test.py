#!/usr/bin/env python3
"""Work shared out over processes: whatever their number, the answer and the files are those of one process.

usage: shared_run_test.py MSPROBE REPOSITORY

Launchers' variables are set by hand, --share is given, and where Open MPI's mpirun is installed, it starts the processes.
Processes that are killed, late, or started twice are named in the answer.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import page_blocks
import page_tests

MSPROBE = None
DATA = None
LAUNCHER = ("OMPI_", "PMI", "SLURM_")
RANKS = 7


def stat_entry(value, changed):
    tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4, 8], "Max": value, "Min": -value, "Mean": value / 7,
              "Norm": value * 3, "requires_grad": False}
    output = dict(tensor, Max=value * (2 if changed else 1), Norm=value * (5 if changed else 3))
    return {"input_args": [tensor], "input_kwargs": {}, "output": [output]}


def write_rank(folder, rank, step, is_test):
    """Ranks of one parity part at the same call; rank 3 is equal to rank 1, and rank 5 is broken."""
    os.makedirs(folder)
    data = {}
    for call in range(12):
        value = 1.0 + call + (rank if rank != 3 else 1) * 0.25 + step
        data["Functional.linear.%d.forward" % call] = stat_entry(value, is_test and call == (4 if rank % 2 else 7))
    text = json.dumps({"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None, "data": data}, indent=1)
    Path(folder, "dump.json").write_text("broken" if rank == 5 and is_test else text)
    Path(folder, "stack.json").write_text("{}")
    Path(folder, "construct.json").write_text("{}")


def make_dumps():
    for side in ("test", "reference"):
        for step in range(2):
            for rank in range(RANKS - (1 if side == "reference" else 0)):
                write_rank("%s/step%d/rank%d" % (side, step, rank), rank, step, side == "test")


def make_nan():
    shutil.copytree(DATA / "nan_analyze/none/step0", "nan/step0")
    shutil.copytree(DATA / "nan_analyze/p2p_chain/step0", "nan/step1")


def make_ckpt():
    shutil.copytree(DATA / "ckpt/single_vs_tp2pp2", "ckpt")


def make_recheck():
    for side in ("npu", "bench"):
        for rank in range(3):
            shutil.copytree(DATA / "recheck" / side / "step0/rank", "%s/step0/rank%d" % (side, rank))


def make_parse():
    shutil.copytree(DATA / "kernel_dump/dumps", "dumps")


def make_monitor():
    shutil.copytree(DATA / "monitor/files/anomaly_analyse/pp_order/anomaly_detected", "run/anomaly_detected")


def make_graph():
    """Four ranks of two steps that communicate; rank 3 of the test is broken in the second one, and rank 4 has no reference."""
    for side in ("test", "reference"):
        for step in range(2):
            for rank in range(5 if side == "test" else 4):
                folder = Path("%s/step%d/rank%d" % (side, step, rank))
                folder.mkdir(parents=True)
                names, data = {"Module.top.Top.forward.0": None}, {}
                for call in range(6):
                    layer = "Module.layer%d.Layer.forward.0" % call
                    names[layer] = "Module.top.Top.forward.0"
                    for name in ("Functional.linear.%d.forward" % call, "Distributed.all_reduce.%d.forward" % call):
                        names[name] = layer
                        value = 1.0 + call + rank * 0.25 + step
                        data[name] = stat_entry(value, side == "test" and call == 2 + rank % 2)
                        if name.startswith("Distributed"):
                            data[name]["input_kwargs"] = {"group": {"type": "torch.ProcessGroup", "group_ranks": [0, 1, 2, 3], "group_id": "g"}}
                for name in [name for name in names if name.startswith("Module")]:
                    data[name] = stat_entry(2.0 + rank, False)
                text = json.dumps({"task": "statistics", "level": "mix", "framework": "pytorch", "dump_data_dir": None, "data": data})
                is_broken = side == "test" and (step, rank) == (1, 3)
                (folder / "dump.json").write_text("broken" if is_broken else text)
                (folder / "construct.json").write_text(json.dumps(names))
                (folder / "stack.json").write_text(json.dumps({"0": [list(data), ["File /home/user/train.py, line 3, in forward, y = f(x)"]]}))


# By the name of the parts: what makes the inputs, and the command.
CASES = {
    "compare": (make_dumps, ["compare", "test", "reference", "-o", "out", "--format", "csv,xlsx,json,html"]),
    "compare_leading": (make_dumps, ["compare", "test", "reference", "-o", "out", "--format", "csv", "--only-leading"]),
    "nan_analyze": (make_nan, ["nan_analyze", "nan", "-o", "out", "--graph"]),
    "ckpt_compare": (make_ckpt, ["ckpt_compare", "ckpt/a", "ckpt/b", "-o", "out/ckpt.json", "--format", "json,csv"]),
    "recheck": (make_recheck, ["recheck", "npu", "bench", "-o", "out"]),
    "parse": (make_parse, ["parse", "dumps", "-t", "npy", "-o", "out", "--index"]),
    "monitor_analyse": (make_monitor, ["monitor", "analyse", "run", "-o", "out"]),
    "graph": (make_graph, ["graph", "test", "reference", "-o", "out", "--format", "vis,db,html,explorer,trace"]),
    "graph_build": (make_graph, ["graph", "reference", "-o", "out"]),
}


def start(arguments, variables=None, launcher=()):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHER)}
    environment.update(variables or {})
    return subprocess.Popen(list(launcher) + [MSPROBE] + arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            universal_newlines=True, env=environment)


def finish(process):
    output, errors = process.communicate(timeout=180)
    return process.returncode, output, errors


def timeless(text):
    """Without times of the day and durations, which no two runs share."""
    text = re.sub(r"\d{19}", "NANOSECONDS", text)
    text = re.sub(r"20\d{12}(_\d+)?", "TIME", text)
    text = re.sub(r'"(\w*seconds|command_line|threads)": [^\n]*', r'"\1"', text)
    text = re.sub(r"(in|after) [0-9.,]+ (ms|s|min|us)\b", r"\1 TIME", text)
    text = re.sub(r"compared [0-9.]+ .?B in", "compared in", text)
    return text


def content_of(path):
    data = path.read_bytes()
    if path.suffix == ".html":
        data = re.sub(rb"20\d{12}(_\d+)?", b"TIME", page_blocks.with_plain_blocks(data))
        data = re.sub(rb'"command_line": ?"[^"]*"', b"", data)
    try:
        return timeless(data.decode())
    except UnicodeDecodeError:
        return data


def results(folder="out"):
    return {timeless(str(path)): content_of(path) for path in sorted(Path(folder).rglob("*")) if path.is_file()}


class SharedRun(unittest.TestCase):
    maxDiff = 2000

    def setUp(self):
        self.before = os.getcwd()
        self.scratch = tempfile.TemporaryDirectory()
        os.chdir(self.scratch.name)

    def tearDown(self):
        os.chdir(self.before)
        self.scratch.cleanup()

    def fresh(self):
        shutil.rmtree("out", ignore_errors=True)
        os.mkdir("out")

    def alone(self, arguments):
        self.fresh()
        code, output, errors = finish(start(arguments))
        return code, timeless(output), timeless(errors), results()

    def check_same(self, expected, ended, on_terminal=False):
        """`ended`: code, output, errors of all processes, the first one first."""
        code, output, errors, files = expected
        self.assertEqual(ended[0][0], code, ended)
        if on_terminal:  # as mpirun has it: with colours and an edge
            self.assertIn(output.split(":")[0], ended[0][1])
        else:
            self.assertEqual(timeless(ended[0][1]), output)
        for other in ended[1:]:
            self.assertEqual((other[0], other[1]), (0, ""), other[2])
        found = results()
        self.assertEqual(sorted(found), sorted(files))
        for name, content in files.items():
            self.assertEqual(found[name], content, name)
        self.assertEqual(list(Path("out").glob(".*")), [])

    def prepare(self, make, arguments):
        """Inputs in an empty folder; what one process alone answers, whose results are gone again."""
        for path in os.listdir("."):
            shutil.rmtree(path)
        make()
        expected = self.alone(arguments)
        self.fresh()
        return expected

    def test_the_answer_of_three_processes_is_that_of_one(self):
        for name, (make, arguments) in CASES.items():
            with self.subTest(name):
                expected = self.prepare(make, arguments)
                self.assertIn(expected[0], (0, 3), expected)
                processes = [start(arguments, {"PMI_RANK": str(index), "PMI_SIZE": "3", "PMI_JOBID": "7"}) for index in range(3)]
                self.check_same(expected, [finish(process) for process in processes])

    def test_processes_that_are_started_one_by_one_give_the_same_answer(self):
        for name in ("compare", "ckpt_compare", "graph"):
            with self.subTest(name):
                make, arguments = CASES[name]
                expected = self.prepare(make, arguments)
                others = [finish(start(arguments + ["--share", "%d/4" % number])) for number in (3, 2, 4)]
                self.check_same(expected, [finish(start(arguments + ["--share", "1/4"]))] + others)

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun (openmpi-bin) is not installed")
    def test_mpirun_starts_eight_processes_that_answer_as_one(self):
        for name in ("compare", "nan_analyze", "ckpt_compare", "parse", "graph"):
            with self.subTest(name):
                make, arguments = CASES[name]
                expected = self.prepare(make, arguments)
                launcher = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "8"]
                self.check_same(expected, [finish(start(arguments, launcher=launcher))], on_terminal=True)

    def start_slow(self, number, count, wait="60", name="compare"):
        """A process that is stopped before it can deliver."""
        process = start(CASES[name][1] + ["--share", "%d/%d" % (number, count), "--wait", wait])
        claim = Path("out/.%s_parts_of_%d/process_%d" % (name, count, number))
        while not claim.exists() and process.poll() is None:
            time.sleep(0.001)
        process.send_signal(signal.SIGSTOP)
        return process

    def test_what_a_killed_process_should_have_delivered_is_named(self):
        make_dumps()
        self.fresh()
        killed = self.start_slow(2, 2)
        part = Path("out/.compare_parts_of_2/part_1_of_2.json")
        if part.exists():
            part.unlink()  # it was faster than the signal
        killed.kill()
        killed.communicate()
        begin = time.time()
        code, output, errors = finish(start(CASES["compare"][1] + ["--share", "1/2", "--wait", "60"]))
        self.assertLess(time.time() - begin, 40)  # its lock is free: nobody waits for it
        self.assertEqual(code, 3)
        self.assertIn("process 2 of 2 ended without a result; missing are", errors)
        self.assertIn("process 2 of 2 ended without a result", output)
        summary = json.loads(next(Path("out").glob("summary*.json")).read_text())
        missing = [pair["name"] for pair in summary["pairs"] if "process 2 of 2" in (pair["error"] or "")]
        self.assertTrue(missing)
        # Another try of both completes it.
        self.assertEqual(finish(start(CASES["compare"][1] + ["--share", "2/2"]))[0], 0)
        code, output, errors = finish(start(CASES["compare"][1] + ["--share", "1/2"]))
        self.assertNotIn("process 2 of 2", output + errors)
        self.assertEqual(list(Path("out").glob(".*")), [])

    def test_graphs_of_a_killed_process_are_named_and_made_by_another_try(self):
        make, arguments = CASES["graph"]
        expected = self.prepare(make, arguments)
        killed = self.start_slow(2, 2, name="graph")
        Path("out/.graph_parts_of_2/part_1_of_2.json").unlink(missing_ok=True)
        killed.kill()
        killed.communicate()
        code, output, errors = finish(start(arguments + ["--share", "1/2", "--wait", "60"]))
        self.assertEqual(code, 3)
        self.assertIn("process 2 of 2 ended without a result; missing are 2 ranks: rank", errors)
        self.assertRegex(errors, r"step 0 rank \d is left out: process 2 of 2 ended without a result")
        self.assertEqual(len(list(Path("out").glob("*.vis.db"))), 1)
        # Another try of both completes it, in the same folder; rows that the killed process left are gone.
        Path("out/.graph_parts_of_2/rows_7").touch()
        for path in Path("out").glob("*.*"):
            path.unlink() if path.is_file() else None
        others = [finish(start(arguments + ["--share", "2/2"]))]
        self.check_same(expected, [finish(start(arguments + ["--share", "1/2"]))] + others)

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun (openmpi-bin) is not installed")
    def test_a_process_of_mpirun_that_is_killed_is_named(self):
        make_dumps()
        self.fresh()
        # The third one kills itself instead of working.
        script = 'if [ "$OMPI_COMM_WORLD_RANK" = 2 ]; then kill -9 $$; fi; exec "$@"'
        launcher = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--enable-recovery", "-n", "4", "sh", "-c", script, "sh"]
        _, output, errors = finish(start(CASES["compare"][1] + ["--wait", "5"], launcher=launcher))
        self.assertIn("process 3 of 4 delivered nothing in time; missing are", errors)
        self.assertIn("process 3 of 4 delivered nothing in time", output)
        answer = json.loads(next(Path("out").glob("summary*.json")).read_text())
        self.assertEqual(answer["exit_code"], 3)

    def test_a_process_that_is_late_is_named_and_says_so_itself(self):
        make_dumps()
        self.fresh()
        variables = {"PMI_SIZE": "2", "PMI_JOBID": "7"}
        late = start(CASES["compare"][1], dict(variables, PMI_RANK="1"))
        claim = Path("out/.compare_parts_7/process_2")
        while not claim.exists() and late.poll() is None:
            time.sleep(0.001)
        late.send_signal(signal.SIGSTOP)
        if Path("out/.compare_parts_7/part_1_of_2.json").exists():
            self.skipTest("it was faster than the signal")
        code, output, errors = finish(start(CASES["compare"][1] + ["--wait", "1"], dict(variables, PMI_RANK="0")))
        self.assertEqual(code, 3)
        self.assertIn("process 2 of 2 delivered nothing in time; missing are", errors)
        late.send_signal(signal.SIGCONT)
        code, output, errors = finish(late)
        self.assertEqual((code, output), (3, ""))
        self.assertIn("process 2 of 2 is too late", errors)

    def test_a_number_that_is_given_twice_is_refused_and_the_one_that_nobody_has_is_named(self):
        make_dumps()
        self.fresh()
        first = self.start_slow(2, 3)
        code, output, errors = finish(start(CASES["compare"][1] + ["--share", "2/3"]))
        self.assertEqual((code, output), (3, ""))
        self.assertIn("process 2 of 3 was started twice", errors)
        first.send_signal(signal.SIGCONT)
        self.assertEqual(finish(first)[0], 0)
        code, _, errors = finish(start(CASES["compare"][1] + ["--share", "1/3", "--wait", "1"]))
        self.assertEqual(code, 3)
        self.assertIn("process 3 of 3 delivered nothing in time", errors)

    def test_parts_of_another_run_and_damaged_ones_are_not_taken(self):
        make_dumps()
        self.fresh()
        self.assertEqual(finish(start(CASES["compare"][1] + ["--share", "2/2"]))[0], 0)
        part = Path("out/.compare_parts_of_2/part_1_of_2.json")
        whole = part.read_bytes()
        # The inputs have changed since.
        write_rank("again", 0, 0, True)
        shutil.copy("again/dump.json", "test/step0/rank0/dump.json")
        code, _, errors = finish(start(CASES["compare"][1] + ["--share", "1/2", "--wait", "1"]))
        self.assertEqual(code, 3)
        self.assertIn("process 2 of 2 left only the part of another run", errors)
        self.fresh()
        self.assertEqual(finish(start(CASES["compare"][1] + ["--share", "2/2"]))[0], 0)
        whole = part.read_bytes()
        for cut in (len(whole) - 1, len(whole) // 2, whole.index(b"\n") + 2):
            part.write_bytes(whole[:cut])
            for table in Path("out").glob("step*/*"):
                table.unlink()  # of the try before, perhaps within this second
            code, output, errors = finish(start(CASES["compare"][1] + ["--share", "1/2", "--wait", "1"]))
            self.assertEqual((code, output), (3, ""), errors)
            self.assertIn("part_1_of_2.json is damaged", errors)

    def test_an_error_of_one_process_is_the_error_of_the_run(self):
        make_parse()
        self.fresh()
        arguments = CASES["parse"][1]
        self.assertEqual(finish(start(arguments))[0], 0)
        ended = [finish(process) for process in [start(arguments + ["--share", "%d/2" % number]) for number in (1, 2)]]
        self.assertEqual([code for code, _, _ in ended], [2, 0], ended)
        self.assertIn("--force", ended[0][2])

    def test_a_share_that_cannot_be_is_refused(self):
        make_dumps()
        for share in ("0/2", "3/2", "2", "a/b", "1/0", "-1/2", "1/2000000"):
            code, _, errors = finish(start(CASES["compare"][1] + ["--share=" + share]))
            self.assertEqual(code, 2, share)
            self.assertIn("expected K/N", errors)
        code, _, errors = finish(start(["compare", "test", "reference", "-o", "none", "--share", "1/2"]))
        self.assertEqual(code, 2)
        self.assertIn("several processes could meet", errors)


if __name__ == "__main__":
    MSPROBE = os.path.abspath(sys.argv[1])
    DATA = Path(sys.argv[2]).resolve() / "tests/data"
    if not page_tests.has_pages(MSPROBE):
        print("without the pages, which this msprobe was built without")
        for _, words in CASES.values():
            words[:] = [word.replace(",html", "") for word in words]
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
