#!/usr/bin/env python3
"""Profiles of many ranks, shared out over processes as mpirun and srun start them, met in one summary.

usage: perf_ranks_test.py MSPROBE REPOSITORY

The launchers' variables are set by hand; where Open MPI's mpirun is installed, it starts the processes, too.
"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

MSPROBE = None
CASE = None
RANKS = 3


def run(*flags, variables=None, launcher=()):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMI", "SLURM_"))}
    environment.update(variables or {})
    return subprocess.Popen(list(launcher) + [MSPROBE, "perf_compare", "-d", "after", "-bp", "before", "-o", "out"] + list(flags),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, universal_newlines=True, env=environment)


def finish(process):
    output, errors = process.communicate(timeout=120)
    return process.returncode, output, errors


def read_summary():
    return json.loads(Path("out/summary.json").read_text())


class ManyRanks(unittest.TestCase):
    def setUp(self):
        self.before = os.getcwd()
        self.scratch = tempfile.TemporaryDirectory()
        os.chdir(self.scratch.name)
        for side, source in (("before", "base"), ("after", "comparison")):
            os.mkdir(side)
            for rank in range(RANKS):
                shutil.copy(CASE / (source + ".pt.trace.json"), "%s/worker%d.pt.trace.json" % (side, rank))

    def tearDown(self):
        os.chdir(self.before)
        self.scratch.cleanup()

    def check_summary(self):
        summary = read_summary()
        self.assertEqual([rank["rank"] for rank in summary["ranks"]], list(range(RANKS)))
        self.assertTrue(all(rank["has_times"] for rank in summary["ranks"]))
        self.assertEqual(summary["missing_ranks"], [])
        self.assertEqual(len(list(Path("out").glob("performance_comparison_result_*_rank?.xlsx"))), RANKS)
        self.assertEqual(list(Path("out").glob(".perf_compare_parts*")), [])
        return summary

    def test_one_process_compares_every_rank_with_its_partner(self):
        os.remove("before/worker2.pt.trace.json")
        shutil.copy("before/worker1.pt.trace.json", "before/worker7.pt.trace.json")
        code, output, errors = finish(run())
        self.assertEqual(code, 0, errors)
        summary = read_summary()
        self.assertEqual([rank["rank"] for rank in summary["ranks"]], [0, 1])
        self.assertEqual((summary["base_only_ranks"], summary["comparison_only_ranks"]), ([7], [2]))
        self.assertIn("2 ranks compared", output)

    def test_a_rank_that_cannot_be_read_leaves_the_others_standing(self):
        Path("after/worker1.pt.trace.json").write_text("this is no trace")
        code, output, _ = finish(run())
        self.assertEqual(code, 3)
        self.assertIn("rank 1 failed", output)
        summary = read_summary()
        self.assertEqual([bool(rank["error"]) for rank in summary["ranks"]], [False, True, False])

    def test_processes_share_the_ranks_and_the_first_sums_them_up(self):
        for names in (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
                      ("PMI_RANK", "PMI_SIZE")):
            with self.subTest(names[0]):
                shutil.rmtree("out", ignore_errors=True)
                ended = [finish(process) for process in
                         [run(variables={names[0]: str(index), names[1]: "2", "SLURM_JOB_ID": "17"}) for index in range(2)]]
                self.assertEqual([code for code, _, _ in ended], [0, 0], ended)
                self.assertIn("3 ranks compared", ended[0][1])
                self.assertEqual(ended[1][1], "")
                self.check_summary()

    def test_a_process_that_never_delivers_is_told(self):
        code, output, _ = finish(run("--wait", "1", variables={"PMI_RANK": "0", "PMI_SIZE": "2"}))
        self.assertEqual(code, 3)
        self.assertIn("not delivered: ranks 1", output)
        self.assertEqual(read_summary()["missing_ranks"], [1])

    def test_a_job_script_is_one_process_whatever_its_job_asked_for(self):
        code, _, errors = finish(run(variables={"SLURM_PROCID": "0", "SLURM_NTASKS": "64"}))
        self.assertEqual(code, 0, errors)
        self.check_summary()

    @unittest.skipUnless(shutil.which("mpirun"), "mpirun (openmpi-bin) is not installed")
    def test_mpirun_starts_two_processes_that_end_with_one_summary(self):
        launcher = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"]
        code, output, errors = finish(run(launcher=launcher))
        self.assertEqual(code, 0, errors)
        self.assertIn("3 ranks compared", output)
        self.check_summary()


if __name__ == "__main__":
    MSPROBE = os.path.abspath(sys.argv[1])
    CASE = Path(sys.argv[2]).resolve() / "tests/data/perf/gpu_gpu_synth"
    unittest.main(argv=sys.argv[:1])
