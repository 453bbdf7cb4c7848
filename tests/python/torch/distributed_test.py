"""Several processes: collectives that nobody has waited for yet, ranks, DistributedDataParallel."""
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

from shim_case import HERE, ShimCase

PROLOGUE = """
import os, socket, sys
sys.path.insert(0, %r)
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.distributed as dist
import torch.multiprocessing as mp

def worker(rank, port):
    torch.set_num_threads(1)
    torch.manual_seed(7)
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
    os.environ["USE_LIBUV"] = "0"  # not every build has it
    from msprobe.pytorch import PrecisionDebugger
    debugger = PrecisionDebugger("config.json")
    work(rank, debugger)
    dist.destroy_process_group()

def join(rank):
    dist.init_process_group("gloo", rank=rank, world_size=2)

def main():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    mp.spawn(worker, (port,), nprocs=2)
""" % HERE
EPILOGUE = """
if __name__ == "__main__":
    main()
"""


class Distributed(ShimCase):
    def run_two(self, code, **options):
        import textwrap
        return self.run_code(textwrap.dedent(code) + EPILOGUE, prologue=PROLOGUE, **options)

    def test_neither_exchange_waits_inside_a_call(self):
        dump = self.run_two("""
            def work(rank, debugger):
                join(rank)
                debugger.start()
                sent, received = torch.full((2,), float(rank + 1)), torch.zeros(2)
                # Both send first and wait last: waiting inside isend would never end.
                handles = [dist.isend(sent, dst=1 - rank), dist.irecv(received, src=1 - rank)]
                for handle in handles: handle.wait()
                other = torch.zeros(2)
                operations = [dist.P2POp(dist.isend, sent, 1 - rank),
                              dist.P2POp(dist.irecv, other, 1 - rank)]
                for handle in dist.batch_isend_irecv(operations): handle.wait()
                assert other.tolist() == received.tolist() == [2.0 - rank] * 2
                debugger.stop(); debugger.step()
        """, level="L1")
        for rank in (0, 1):
            data = dump.data(rank="rank%d" % rank)
            self.assertEqual(data["Distributed.irecv.0.forward"]["input_args"][0]["Max"], 0.0)
            self.assertEqual(data["Distributed.irecv.0.forward"]["output"][0]["Max"], 2.0 - rank)
            self.assertEqual(data["Distributed.isend.0.forward"]["output"][0]["Max"], 1.0 + rank)
            batch = data["Distributed.batch_isend_irecv.0.forward"]
            described = batch["input_args"][0][1]
            self.assertEqual(described["class_type"], "torch.distributed.P2POp")
            self.assertEqual((described["op"], described["peer"]), ("irecv", 1 - rank))
            self.assertEqual(batch["output"][0][1]["tensor"]["Max"], 2.0 - rank)

    def test_what_is_never_waited_for_is_recorded_with_the_step(self):
        dump = self.run_two("""
            def work(rank, debugger):
                join(rank)
                debugger.start()
                values = torch.ones(2)
                handle = dist.all_reduce(values, async_op=True)
                dist.barrier()
                while not handle.is_completed(): pass
                debugger.stop(); debugger.step()
                handle.wait()
        """, level="L1")
        output = dump.data(rank="rank0")["Distributed.all_reduce.0.forward"]["output"]
        self.assertEqual(output[0]["Max"], 2.0)

    def test_reductions_have_names(self):
        dump = self.run_two("""
            def work(rank, debugger):
                join(rank)
                debugger.start()
                dist.all_reduce(torch.ones(2), op=dist.ReduceOp.MIN)
                debugger.stop(); debugger.step()
        """, level="L1")
        entry = dump.data(rank="rank1")["Distributed.all_reduce.0.forward"]
        self.assertEqual(entry["input_kwargs"]["op"],
                         {"type": "torch.distributed.ReduceOp", "value": "RedOpType.MIN"})

    def test_a_rank_that_is_known_late_has_its_folder(self):
        dump = self.run_two("""
            def work(rank, debugger):
                if rank == 1: os.environ.update(RANK="1", WORLD_SIZE="2")
                debugger.start()
                torch.abs(torch.ones(1))
                join(rank)
                debugger.stop(); debugger.step()
                debugger.start()
                torch.abs(torch.ones(1))
                debugger.stop(); debugger.step()
        """, level="L1")
        self.assertEqual(dump.ranks(0), ["rank", "rank1"])
        self.assertEqual(dump.ranks(1), ["rank0", "rank1"])

    def test_a_rank_filter_without_a_rank_is_told(self):
        dump = self.run_code("""
            debugger.start(); torch.abs(torch.ones(1)); debugger.stop(); debugger.step()
        """, level="L1", rank=[0])
        self.assertEqual(dump.steps(), [])
        self.assertIn("does not know its rank", dump.output)

    def test_only_the_selected_ranks_are_recorded(self):
        dump = self.run_two("""
            def work(rank, debugger):
                join(rank)
                debugger.start(); torch.abs(torch.ones(1)); debugger.stop(); debugger.step()
        """, level="L1", rank=[1])
        self.assertEqual(dump.ranks(), ["rank1"])

    def test_distributed_data_parallel_trains_the_same(self):
        code = """
            def work(rank, debugger):
                join(rank)
                model = nn.parallel.DistributedDataParallel(
                    nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)))
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for step in range(2):
                    %s
                    optimizer.zero_grad()
                    model(torch.full((2, 3), float(rank + step))).sum().backward()
                    optimizer.step()
                    %s
                if rank == 0: print([p.sum().item() for p in model.parameters()])
        """
        dump = self.run_two(code % ("debugger.start(model)", "debugger.stop(); debugger.step()"))
        plain = self.run_two(code % ("", ""))
        self.assertEqual(dump.output.splitlines()[-1], plain.output.splitlines()[-1])
        names = dump.names(1, "rank1")
        self.assertIn("Module.module.0.Linear.forward.0", names)
        self.assertIn("Module.module.2.Linear.backward.0", names)
        gradient = dump.data(1, "rank1")["Module.module.0.Linear.parameters_grad"]["weight"][0]
        self.assertIsNotNone(gradient)


if __name__ == "__main__":
    unittest.main(verbosity=1)
