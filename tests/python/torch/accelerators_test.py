"""Tensors of accelerators without one: rows of numbers, blocks, streams and threads, on the CPU and on devices that are none."""
import sys
import unittest

try:
    import torch  # noqa: F401
except ImportError:
    print("PyTorch is not installed: skipped")
    sys.exit(77)

from shim_case import ForkedCase


class Accelerators(ForkedCase):
    def test_statistics_are_reduced_in_place_and_read_together(self):
        self.run_code("""
            import msprobe._native as native
            from msprobe.pytorch.device_statistics import DeviceStatistics
            filled = {}
            native.fill_statistics = lambda ticket, *row: filled.__setitem__(ticket, row)
            statistics = DeviceStatistics(saves_bytes=False)
            for ticket in range(1, 5001):  # more than a buffer holds
                described = statistics.describe(torch.tensor([float(ticket), -2.0]))
                described[-1](ticket)
            statistics.flush()
            assert len(filled) == 5000
            assert filled[5000][:3] == (5000.0, -2.0, 2499.0)
            assert abs(filled[3][3] - 13 ** 0.5) < 1e-6
        """)

    def test_large_tensors_are_reduced_in_blocks(self):
        """Of every layout, views alone: together they are the tensor, and their numbers give those of the whole."""
        self.run_code("""
            import math
            import msprobe._native as native
            from msprobe.pytorch import device_blocks, device_statistics
            from msprobe.pytorch.monitor import device
            for module in (device_statistics, device):
                module.blocks_of = lambda values: device_blocks.blocks_of(values, 7)
            filled, rows = {}, {}
            native.fill_statistics = lambda ticket, *row: filled.__setitem__(ticket, row)
            class Engine:
                def fill(self, ticket, row): rows[ticket] = row
            ops = ["norm", "min", "max", "mean", "zeros", "nans", "std", "rms", "amax", "infs", "subnormals", "dynamic_range"]
            statistics = device_statistics.DeviceStatistics(saves_bytes=False)
            monitor, whole = device.DeviceStatistics(Engine(), {"ops": ops}), device.DeviceStatistics(Engine(), {"ops": ops})
            base = torch.randn(12, 5, 8)
            base[3, 2, 1] = 0
            broken = base.clone()
            broken[11, 4, 7] = float("nan")
            tensors = [base, base.transpose(0, 2), base[:, 1, :], base[0, 0, :1].expand(30, 4), base.reshape(-1), broken,
                       base.bfloat16(), torch.full((3, 9), -float("inf")), torch.full((40,), 1e-40), torch.arange(50)]
            for ticket, tensor in enumerate(tensors, 1):
                blocks = list(device_blocks.blocks_of(tensor, 7))
                assert max(block.numel() for block in blocks) <= 7 and sum(block.numel() for block in blocks) == tensor.numel()
                assert all(block.storage().data_ptr() == tensor.storage().data_ptr() for block in blocks)
                statistics.describe(tensor)[-1](ticket)
                monitor.describe(tensor)(ticket)
            statistics.flush(); monitor.flush()
            device.blocks_of = lambda values: [values]
            for ticket, tensor in enumerate(tensors, 1):
                whole.describe(tensor)(-ticket)
            whole.flush()
            def same(left, right):
                return left == right or math.isnan(left) and math.isnan(right) or abs(left - right) <= 1e-5 * abs(right) + 1e-6
            for ticket, tensor in enumerate(tensors, 1):
                wide = tensor.double()
                expected = [float(wide.max()), float(wide.min()), float(wide.mean()), float(wide.norm())]
                assert all(map(same, filled[ticket], expected)), (ticket, filled[ticket], expected)
                assert all(map(same, rows[ticket], rows[-ticket])), (ticket, rows[ticket], rows[-ticket])
            assert rows[6][ops.index("nans")] == 1 and rows[8][ops.index("infs")] == 27 and rows[9][ops.index("subnormals")] == 40
        """)

    def test_a_row_is_never_written_into_memory_that_was_given_back(self):
        """Two threads meet a device for the first time: both use the rows of the one that was quicker."""
        self.run_code("""
            import threading
            import msprobe._native as native
            from msprobe.pytorch import device_rows, device_statistics
            from msprobe.pytorch.monitor import device
            made_aside, both = device_rows.made_aside, threading.Barrier(2)
            def made_together(*arguments):
                both.wait()
                return made_aside(*arguments)
            device_rows.made_aside = made_together
            filled, rows = {}, {}
            native.fill_statistics = lambda ticket, *row: filled.__setitem__(ticket, row)
            class Engine:
                def fill(self, ticket, row): rows[ticket] = row
            for of_device in (device_statistics.DeviceStatistics(saves_bytes=False), device.DeviceStatistics(Engine(), {"ops": ["max"]})):
                def observed(ticket):
                    described = of_device.describe(torch.full((3,), float(ticket)))
                    (described[-1] if isinstance(described, tuple) else described)(ticket)
                threads = [threading.Thread(target=observed, args=(ticket,)) for ticket in (1, 2)]
                for thread in threads: thread.start()
                for thread in threads: thread.join()
                of_device.flush()
            assert {ticket: row[0] for ticket, row in filled.items()} == {1: 1.0, 2: 2.0}, filled
            assert rows == {1: [1.0], 2: [2.0]}, rows
        """)

    def test_what_is_copied_is_held_until_the_copy_is_queued(self):
        self.run_code("""
            from msprobe.pytorch.device_statistics import DeviceStatistics
            tensor = torch.arange(6.0).view(2, 3).t()
            described = DeviceStatistics(saves_bytes=True).describe(tensor)
            held = described[-2]
            assert held.data_ptr() == described[2] != tensor.data_ptr() and held.is_contiguous() and held.equal(tensor)
        """)

    def test_what_is_told_of_a_tensor_is_what_the_capture_takes(self):
        """A device that is none: its memory is the host's, and the numbers come later."""
        dump = self.run_code("""
            import types
            import msprobe._native as native
            class Elsewhere(torch.Tensor):
                is_cpu, device = False, types.SimpleNamespace(type="pretended")
            tickets, kept = [], torch.tensor([3.0, -4.0])
            model = nn.Sequential(nn.Identity())
            debugger.start(model)
            for take in (None, tickets.append):
                native.configure("device_tensor", lambda tensor: (native.DEVICE_HOST, 0, kept.data_ptr(), 0, None, 0, kept, take))
                model(torch.ones(2).as_subclass(Elsewhere))
            for ticket in tickets: native.fill_statistics(ticket, 8.0, 7.0, 6.0, 5.0)
            debugger.stop(); debugger.step()
        """, level="L0")
        for number, expected in (0, [3.0, -4.0, -0.5, 5.0]), (1, [8.0, 7.0, 6.0, 5.0]):
            [described] = dump.data()["Module.0.Identity.forward.%d" % number]["input_args"]
            self.assertEqual([described[key] for key in ("Max", "Min", "Mean", "Norm")], expected)

    def test_rows_are_not_read_while_a_graph_is_recorded(self):
        self.run_code("""
            import types
            from msprobe.pytorch.device_rows import Rows
            rows = Rows(torch.device("cpu"), 1)
            number, take = rows.next()
            rows.numbers[number] = 5.0
            rows.written()
            take(7)
            rows.device = types.SimpleNamespace(type="cuda")
            torch.cuda.is_current_stream_capturing = lambda: True
            assert rows.read() == []
            rows.device = torch.device("cpu")
            assert rows.read() == [(7, [5.0])] and rows.read() == []
        """)

    def test_shape_and_dtype_need_no_number(self):
        self.run_code("""
            from msprobe.pytorch.monitor import device
            rows = {}
            class Engine:
                def fill(self, ticket, row): rows[ticket] = row
            of_device = device.DeviceStatistics(Engine(), {"ops": ["shape", "dtype"]})
            of_device.describe(torch.ones(3))(4)
            of_device.flush()
            assert rows == {4: []}, rows
        """)

    def test_work_in_a_thread_of_its_own_ends_before_its_caller_goes_on(self):
        self.run_code("""
            import sys, threading
            from msprobe.pytorch.device_streams import in_own_thread
            told = []
            in_own_thread(lambda: told.append(threading.get_ident()))
            assert len(told) == 1 and told[0] != threading.get_ident()
            def wrong(): raise KeyError("told to the caller")
            def raised_by(work):
                try: in_own_thread(work)
                except Exception as error: return error
            assert repr(raised_by(wrong)) == "KeyError('told to the caller')"
            child = os.fork()
            if child == 0:
                in_own_thread(lambda: told.append(0))
                os._exit(len(told))
            assert os.waitpid(child, 0)[1] == 2 << 8
            # While Python ends, one that waited for a thread could wait for ever.
            sys.is_finalizing = lambda: True
            assert "Python is ending" in str(raised_by(lambda: told.append(1))) and len(told) == 1
        """)

    def test_streams_of_a_device_that_is_not_the_first(self):
        """Other threads never come back to the first device, and streams are told apart without waiting for what queues their work."""
        self.run_code("""
            import contextlib, types
            from msprobe.pytorch import device_streams
            done, current = [], {}
            class Stream:
                def __init__(self, number, device): self.stream_id, self.device = number, device
                @property
                def pretended_stream(self): raise AssertionError("this waits")
                def synchronize(self): done.append("synchronized %d" % self.stream_id)
                def wait_stream(self, other): done.append("%d waits for %d" % (self.stream_id, other.stream_id))
            @contextlib.contextmanager
            def entered(stream):
                done.append("enters %d" % stream.stream_id)
                yield
            torch.pretended = types.SimpleNamespace(
                current_stream=lambda device: current[device.index], stream=entered, set_device=lambda device: done.append("device %d" % device.index))
            class Key:   # devices are keys of what is asked for
                type, index = "pretended", 3
            device = Key()
            current[3] = Stream(8, device)
            assert device_streams.handle_of_stream(device) == 8
            assert device_streams.made_aside(device, lambda: done.append("made") or torch.ones(2)).tolist() == [1, 1]
            assert done == ["device 3", "made", "synchronized 8"], done
            del done[:]
            context = device_streams.in_streams_of([types.SimpleNamespace(device=device), types.SimpleNamespace(device=torch.device("cpu"))])
            def work():
                with context: done.append("works")
            device_streams.in_own_thread(work)
            assert done == ["device 3", "enters 8", "works"], done
            del done[:]
            streams = {8: current[3], 9: Stream(9, device)}
            device_streams.wait_for_streams(streams, device)
            assert done == ["8 waits for 9"] and not streams, done
        """)


if __name__ == "__main__":
    unittest.main(verbosity=1)
