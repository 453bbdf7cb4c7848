"""The kernel that reduces tensors on a GPU, alone: its numbers against float64 on the host, and how fast it reads."""
import math
import os
import sys
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import harness  # noqa: E402
import torch  # noqa: E402

if not os.path.exists("/dev/nvidiactl"):
    print("there is no GPU: skipped")
    sys.exit(77)

from msprobe import _native  # noqa: E402
from msprobe.pytorch import values  # noqa: E402

DTYPES = ("float32", "float64", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int8", "uint8", "int16", "int32", "int64")


class Kernels(harness.FrameworkCase):
    framework, module = "cuda", "torch"

    @classmethod
    def setUpClass(cls):
        values.configure()
        cls.row = torch.full((4,), -1.0, dtype=torch.float64, device="cuda")
        cls.scratch = torch.zeros(_native.STATISTICS_SCRATCH_BYTES, dtype=torch.uint8, device="cuda")
        torch.cuda.synchronize()

    def reduce(self, tensor):
        """None where there is no kernel for it."""
        stream = torch.cuda.current_stream().cuda_stream
        queued = _native.reduce_on_device(tensor, _native.DEVICE_CUDA, 0, stream, self.row.data_ptr(), self.scratch.data_ptr())
        return self.row.tolist() if queued else None

    def assert_right(self, tensor, what):
        wide = tensor.cpu().to(torch.float64)
        expected = [float(wide.max()), float(wide.min()), float(wide.mean()), float(wide.norm())]
        found = self.reduce(tensor)
        self.assertIsNotNone(found, what)
        scale = float(wide[torch.isfinite(wide)].abs().max()) if bool(torch.isfinite(wide).any()) else 1.0
        for at, (number, exact) in enumerate(zip(found, expected)):
            if math.isnan(exact) or math.isinf(exact):
                self.assertEqual(repr(number), repr(exact), (what, at, found, expected))
            else:
                allowed = 0 if at < 2 else 1e-12 * (abs(exact) + scale)
                self.assertLessEqual(abs(number - exact), allowed, (what, at, found, expected))
        self.assertEqual([repr(number) for number in found], [repr(number) for number in self.reduce(tensor)], what)

    def filled(self, shape, dtype, generator):
        kept = getattr(torch, dtype)
        if kept.is_floating_point:
            return (torch.randn(shape, generator=generator, device="cuda") * 3 + 0.5).to(kept)
        low, high = (0, 256) if dtype == "uint8" else (-100, 100)
        return torch.randint(low, high, shape, generator=generator, device="cuda").to(kept)

    def test_numbers_of_every_dtype_size_and_layout(self):
        with self.checking("works", "kernel for statistics: eleven dtypes, every layout, against float64"):
            generator = torch.Generator("cuda").manual_seed(3)
            for dtype in DTYPES:
                for count in (1, 2, 7, 31, 255, 4097, 65537, 1_000_003, 20_000_000):
                    self.assert_right(self.filled((count,), dtype, generator), (dtype, count))
                base = self.filled((70, 33, 12, 10), dtype, generator)
                flat = base.reshape(-1)
                views = {"offset 1": flat[1:], "offset 3": flat[3:-2], "every other": flat[::2], "transposed": base.transpose(1, 3),
                         "permuted": base.permute(3, 1, 0, 2), "part": base[3:60, 2:30, 1:9, 2:7], "rows in vectors": flat[:277120].view(-1, 64)[:, :32], "rows, not aligned": flat[1:].view(-1)[:277056].view(-1, 64)[:, 3:35], "column": base[:, 5, :, 3],
                         "expanded": base[:, :1, :, :].expand(70, 9, 12, 10), "one element": base[3:4, 2:3, 1:2, 0:1],
                         "channels last": base.contiguous(memory_format=torch.channels_last)}
                for what, view in views.items():
                    self.assert_right(view, (dtype, what))

    def test_what_is_not_finite(self):
        with self.checking("works", "kernel for statistics: NaN, infinities, smallest and largest numbers"):
            for dtype in ("float32", "float64", "float16", "bfloat16", "float8_e5m2", "float8_e4m3fn"):
                kept = getattr(torch, dtype)
                for specials in ([math.nan], [math.inf], [-math.inf], [math.inf, -math.inf], [torch.finfo(kept).max, torch.finfo(kept).min],
                                 [torch.finfo(kept).tiny, torch.finfo(kept).smallest_normal / 2]):
                    if dtype == "float8_e4m3fn" and math.inf in [abs(special) for special in specials]:
                        continue
                    for count in (9, 100_000):
                        wide = torch.zeros(count, dtype=torch.float64)
                        wide[count // 2:count // 2 + len(specials)] = torch.tensor(specials, dtype=torch.float64)
                        self.assert_right(wide.to(kept).cuda(), (dtype, specials, count))
            every = torch.arange(256, dtype=torch.int32).to(torch.uint8)
            for kept in (torch.float8_e5m2, torch.float8_e4m3fn):
                for pattern in every:   # each bit pattern alone
                    self.assert_right(pattern.repeat(3).view(kept).cuda(), (kept, int(pattern)))

    def test_speed(self):
        """How fast it reads beside a copy of the device, which reads and writes."""
        for dtype in ("float32", "bfloat16", "float8_e4m3fn"):
            tensor = torch.ones(2 ** 31 // getattr(torch, dtype).itemsize, device="cuda").to(getattr(torch, dtype))
            other = torch.empty_like(tensor)
            view = tensor.view(2, -1)[:, :-4096]
            rates = []
            for work, moved in ((lambda: other.copy_(tensor), 2), (lambda: self.reduce_without_waiting(tensor), 1),
                                (lambda: self.reduce_without_waiting(view), 1)):
                work()
                begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                begin.record()
                for _ in range(10):
                    work()
                end.record()
                torch.cuda.synchronize()
                rates.append(moved * tensor.numel() * tensor.element_size() * 10 / begin.elapsed_time(end) / 1e9)
            print("%s: copy %.2f TB/s, statistics %.2f TB/s, of a view of rows %.2f TB/s" % (dtype, *rates))
            self.assertGreater(rates[1], 0)
            del tensor, other, view
        small = torch.ones(64, 64, device="cuda")
        started = time.perf_counter()
        for _ in range(2000):
            self.reduce_without_waiting(small)
        print("queueing one: %.2f us" % ((time.perf_counter() - started) / 2000 * 1e6))
        torch.cuda.synchronize()

    def reduce_without_waiting(self, tensor):
        stream = torch.cuda.current_stream().cuda_stream
        self.assertTrue(_native.reduce_on_device(tensor, _native.DEVICE_CUDA, 0, stream, self.row.data_ptr(), self.scratch.data_ptr()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
