"""Two gloo processes: communication, ranks that are selected, groups, DistributedDataParallel.

Recorded: the rows of cc_2rank in the corrected form (one per function, moment and argument), module_ranks_2rank as they are.
"""
import csv
import json
import os
import subprocess
import sys
import unittest

try:
    import torch
    import torch.distributed
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)
if not torch.distributed.is_available():
    print("PyTorch comes without torch.distributed: skipped")
    sys.exit(77)

from monitor_case import MonitorCase, Written
from monitor_golden_test import GOLDEN, SAME_NUMBERS, SMALL, close, read

PROLOGUE = """
import os, socket, sys
import torch
import torch.nn as nn
import torch.distributed as dist
import torch.multiprocessing as mp

def ended():
    pass

def worker(rank, port):
    torch.set_num_threads(1)
    # PyTorch 2 imports its compiler with the first optimizer. Where that is after the group was made, the group's threads outlive
    # it, with and without a monitor, and a thread that outlives the interpreter may abort the process.
    torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    torch.manual_seed(7)
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
    os.environ["USE_LIBUV"] = "0"  # not every build has it
    dist.init_process_group("gloo", rank=rank, world_size=2)
    from msprobe.pytorch import TrainerMon
    work(rank, TrainerMon("config.json", params_have_main_grad=False))
    dist.destroy_process_group()
    ended()

def main():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mp.spawn(worker, (port,), nprocs=2)
"""
EPILOGUE = """
if __name__ == "__main__":
    main()
"""
# The recorded training ends with its process group alive. A thread of gloo that drops the last
# reference to a tensor then wants the interpreter's lock, and PyTorch ends in terminate() where the
# interpreter is just going: with and without a monitor. So the interpreter stays until the end.
RECORDED = """
import atexit, os, runpy, sys
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
atexit._run_exitfuncs()
sys.stdout.flush()
os._exit(0)
"""


class Two(MonitorCase):
    def run_two(self, code, configuration):
        import textwrap
        return self.run_code(textwrap.dedent(code) + EPILOGUE, configuration, prologue=PROLOGUE)

    def run_recorded(self, configuration, *arguments):
        folder = self.folder()
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(configuration, file)
        environment = dict(os.environ, MONITOR_OUTPUT_DIR=os.path.join(folder, "out"))
        processes = [subprocess.Popen(
            [sys.executable, "-c", RECORDED, os.path.join(SMALL, "train_dist.py"), "config.json",
             str(rank), os.path.join(folder, "store")] + list(arguments), cwd=folder, env=environment, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT) for rank in range(2)]
        said = [process.communicate(timeout=200)[0].decode() for process in processes]
        self.assertEqual([process.returncode for process in processes], [0, 0], said)
        return Written(folder, "".join(said))

    # ---- recorded ----

    def test_communication_of_two_ranks(self):
        written = self.run_recorded({"targets": {}, "cc_distribution": {"enable": True, "cc_pre_hook": True},
                                     "ops": ["norm", "min", "max", "mean", "zeros", "nans"]})
        rows = {row["name"]: row for row in written.rows("other_0-0.csv")}
        self.assertEqual(sorted(rows), sorted(
            "%s_%d" % (name, index) for name, count in (("all_reduce", 1), ("all_gather", 2), ("send", 1),
                                                        ("broadcast", 1))
            for name in (name + ".pre", name + ".post") for index in range(count)))
        self.assertEqual({row["vpp_stage"] for row in rows.values()}, {"0"})
        # One call each: the numbers are those of the recorded rows.
        self.assertEqual([rows["send.pre_0"][key] for key in ("norm", "min", "max", "mean", "zeros", "nans")],
                         ["0.090038", "0.090038", "0.090038", "0.090038", "0.0", "0"])
        self.assertEqual([rows["all_gather.post_0"][key] for key in ("norm", "min", "max", "mean", "zeros")],
                         ["1.004663", "0.0", "1.0", "0.281314", "0.25"])
        # Four calls of all_reduce: the root of the sum of squares, and the least and largest of all.
        self.assertEqual((rows["all_reduce.pre_0"]["min"], rows["all_reduce.pre_0"]["max"]),
                         ("-0.261868", "0.150622"))
        self.assertLess(float(rows["all_reduce.pre_0"]["norm"]), 1.051563)  # the plain sum of the norms
        self.assertEqual(rows["all_reduce.pre_0"]["calls"], "4")
        self.assertEqual(rows["broadcast.post_0"]["calls"], "1")
        other = {row["name"]: row for row in written.rows("other_0-0.csv", rank=1)}
        self.assertIn("recv.post_0", other)
        self.assertEqual(other["recv.post_0"]["norm"], "0.090038")
        self.assertEqual(other["all_reduce.post_0"]["norm"], rows["all_reduce.post_0"]["norm"])
        self.assertEqual(other["broadcast.pre_0"]["norm"], "1.414214")
        self.assertEqual(other["broadcast.post_0"]["norm"], "0.0")  # after the wait

    def test_norms_of_several_calls_are_combined_over_all_elements(self):
        written = self.run_two("""
            def work(rank, monitor):
                model = nn.Linear(1, 1)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                monitor.set_monitor(model, optimizer)
                dist.all_reduce(torch.full((9,), 1.0))
                dist.all_reduce(torch.full((16,), 1.0), async_op=True).wait()
                dist.all_reduce(tensor=torch.tensor([float("nan")]))
                optimizer.step()
        """, {"cc_distribution": {"enable": True, "cc_pre_hook": True}, "ops": ["norm", "mean", "nans"]})
        rows = {row["name"]: row for row in written.rows("other_0-0.csv")}
        self.assertEqual(rows["all_reduce.pre_0"]["nans"], "1")
        self.assertEqual(rows["all_reduce.pre_0"]["calls"], "3")
        self.assertEqual(rows["all_reduce.post_0"]["calls"], "3")

    def test_selected_ranks_and_replicas(self):
        folder = os.path.join(GOLDEN, "module_ranks_2rank")
        if not os.path.isdir(folder):
            self.skipTest("the recorded case is not here: MSPROBE_GOLDEN leads to none")
        written = self.run_recorded(json.loads(read(folder, "config.json")), "dp")
        (recorded,) = [name for name in os.listdir(os.path.join(folder, "output")) if "-rank0-" in name]
        expected = {name: read(folder, "output", recorded, name)
                    for name in os.listdir(os.path.join(folder, "output", recorded)) if name.endswith(".csv")}
        tables = written.tables(0)
        self.assertEqual(sorted(tables), sorted(expected))
        for name, text in expected.items():
            rows, own = [list(csv.reader(table.splitlines())) for table in (text, tables[name])]
            self.assertEqual([row[:3] for row in own], [row[:3] for row in rows])
            for row, mine in zip(rows, own):
                for cell, value in zip(row, mine):
                    self.assertTrue(cell == value or not SAME_NUMBERS and close(cell, value), (name, row, mine))
        self.assertEqual(written.tables(1), {})

    # ---- more ----

    def test_pairs_and_batches_of_messages_work_as_before(self):
        written = self.run_two("""
            def work(rank, monitor):
                model = nn.Linear(1, 1)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                early = [dist.P2POp(dist.isend, torch.full((2,), float(rank)), 1 - rank),
                         dist.P2POp(dist.irecv, torch.zeros(2), 1 - rank)]
                monitor.set_monitor(model, optimizer)
                for step in range(2):
                    for handle in dist.batch_isend_irecv(early): handle.wait()
                    late = [dist.P2POp(dist.isend, torch.full((3,), float(rank)), 1 - rank),
                            dist.P2POp(dist.irecv, torch.zeros(3), 1 - rank)]
                    for handle in dist.batch_isend_irecv(late): handle.wait()
                    assert late[1].tensor.tolist() == [1.0 - rank] * 3
                    optimizer.step()
                for handle in dist.batch_isend_irecv(late): handle.wait()
                assert dist.all_reduce.__module__.startswith("torch")
        """, {"cc_distribution": {"enable": True}, "ops": ["norm"], "collect_times": 1})
        rows = {row["name"]: row for row in written.rows("other_0-0.csv", rank=1)}
        self.assertEqual(list(rows), ["batch_isend_irecv.post_0"])
        self.assertEqual(rows["batch_isend_irecv.post_0"]["calls"], "2")

    def test_lines_of_code_select_calls_and_stacks_can_be_told_alone(self):
        code = """
            def chosen(): dist.all_reduce(torch.ones(1))
            def other(): dist.all_reduce(torch.ones(4))
            def work(rank, monitor):
                model = nn.Linear(1, 1)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                monitor.set_monitor(model, optimizer)
                for step in range(2):
                    chosen(); other()
                    optimizer.step()
                print("to the end")
        """
        written = self.run_two(code, {"cc_distribution": {"enable": True, "cc_codeline": [r"\]   chosen"]}})
        self.assertEqual([row["calls"] for row in written.rows("other_1-1.csv")], ["1"])
        self.assertEqual([row["norm"] for row in written.rows("other_1-1.csv")], ["2.0"])
        written = self.run_two(code, {"cc_distribution": {"enable": True, "cc_log_only": True}})
        self.assertEqual(written.said.count("to the end"), 2)
        stacks = json.loads(read(written.path("communication_stacks.json")))
        self.assertEqual(len(stacks["all_reduce"]), 2)
        self.assertTrue(stacks["all_reduce"][0][0].endswith("   chosen"), stacks)

    def test_distributed_data_parallel(self):
        written = self.run_two("""
            def work(rank, monitor):
                model = nn.parallel.DistributedDataParallel(nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)))
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                monitor.set_monitor(model, optimizer, dp_group=dist.group.WORLD)
                for step in range(2):
                    optimizer.zero_grad()
                    model(torch.full((1, 2), float(rank + 1))).sum().backward()
                    optimizer.step()
            def ended():
                import gc
                gc.collect()
                names = [open("/proc/self/task/%s/comm" % task).read() for task in os.listdir("/proc/self/task")]
                assert not any("gloo" in name for name in names), names
        """, {"wg_distribution": True, "xy_distribution": True, "ops": ["norm"]})
        both = [{row["name"]: row["norm"] for row in written.rows("grad_unreduced_0-0.csv", rank)} for rank in (0, 1)]
        self.assertNotEqual(both[0]["module.0.weight"], both[1]["module.0.weight"])
        reduced = {row["name"]: row["norm"] for row in written.rows("grad_reduced_0-0.csv", 0)}
        self.assertEqual(len(reduced), 4)
        self.assertNotIn("grad_reduced_0-0.csv", written.tables(1))  # a replica of rank 0
        self.assertIn("module.0.output", written.names("actv_1-1.csv", 1))

    # That of PyTorch 2.6 asks the stream of a CPU for an event, which it does not have.
    @unittest.skipUnless(tuple(map(int, torch.__version__.split(".")[:2])) > (2, 6), "fully_shard on a CPU is of PyTorch 2.7")
    def test_parameters_of_fully_shard_have_no_gradient_before_the_exchange(self):
        """It calls the hooks of parameters with gradients that have been exchanged."""
        written = self.run_two("""
            def work(rank, monitor):
                from torch.distributed.fsdp import fully_shard
                model = nn.ModuleDict({"sharded": nn.Linear(2, 4), "whole": nn.Linear(4, 1)})
                fully_shard(model["sharded"], mesh=torch.distributed.init_device_mesh("cpu", (2,)))
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                monitor.set_monitor(model, optimizer)
                for step in range(2):
                    optimizer.zero_grad()
                    model["whole"](model["sharded"](torch.full((1, 2), float(rank + 1)))).sum().backward()
                    optimizer.step()
        """, {"wg_distribution": True, "ops": ["norm"]})
        for rank in (0, 1):
            self.assertEqual(sorted(written.names("grad_reduced_1-1.csv", rank)), ["sharded.bias", "sharded.weight", "whole.bias", "whole.weight"])
            self.assertEqual(sorted(written.names("grad_unreduced_1-1.csv", rank)), ["whole.bias", "whole.weight"])


if __name__ == "__main__":
    unittest.main(verbosity=1)
