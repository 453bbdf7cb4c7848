""".safetensors files written by the library itself, and whether it takes what we take."""
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
import harness  # noqa: E402
import numpy  # noqa: E402
import safetensors.numpy  # noqa: E402
import safetensors.torch  # noqa: E402
import torch  # noqa: E402

REPOSITORY = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(HERE))))
DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "uint16", "uint32",
          "uint64", "float8_e4m3fn", "float8_e5m2", "complex64"]


class SafeTensors(harness.FrameworkCase):
    framework = "safetensors"

    def tensors(self):
        torch.manual_seed(3)
        found = {}
        for name in DTYPES:
            dtype = getattr(torch, name)
            for shape in ((), (0, 3), (5,), (4, 3, 2)):
                found["%s.%s" % (name, "x".join(map(str, shape)) or "scalar")] = (torch.randn(shape) * 3).abs().to(dtype)
        return found

    def compare(self, first, second, *flags):
        """Exit code of ckpt_compare --fail-on different, and its output."""
        run = subprocess.run([harness.MSPROBE, "ckpt_compare", first, second, "-o", os.path.join(self.folder(), "out.json"),
                              "--fail-on", "different", "--fail-on", "missing", "--fail-on", "error", *flags],
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
        return run.returncode, run.stdout

    def test_every_dtype_is_read_as_from_a_pt_file(self):
        with self.checking("works", "files written by it"):
            folder = self.folder()
            first, other, changed = (os.path.join(folder, name) for name in ("a.safetensors", "a.pt", "b.safetensors"))
            tensors = self.tensors()
            safetensors.torch.save_file(tensors, first, metadata={"format": "pt", "origin": "test"})
            torch.save(tensors, other)
            code, output = self.compare(first, other)
            self.assertEqual(code, 0, output)
            for name in DTYPES:
                altered = dict(tensors)
                key = name + ".5"
                altered[key] = tensors[key].clone()
                altered[key][2] = torch.zeros((), dtype=altered[key].dtype) if tensors[key][2] else torch.ones(
                    (), dtype=altered[key].dtype)
                safetensors.torch.save_file(altered, changed)
                code, output = self.compare(first, changed)
                self.assertEqual(code, 1, name + output)
                self.assertIn(key, output)

    def test_numpy_arrays(self):
        with self.checking("works", "files written by it"):
            folder = self.folder()
            arrays = {"f": numpy.arange(6, dtype=numpy.float32).reshape(2, 3), "i": numpy.arange(4, dtype=numpy.int16)}
            safetensors.numpy.save_file(arrays, os.path.join(folder, "a.safetensors"))
            numpy.savez(os.path.join(folder, "a.npz"), **arrays)
            code, output = self.compare(os.path.join(folder, "a.safetensors"), os.path.join(folder, "a.npz"))
            self.assertEqual(code, 0, output)

    def test_damaged_files_are_refused_where_it_refuses_them(self):
        reader = os.path.join(REPOSITORY, "build", "bin", "list_tensors")
        if os.environ.get("MSPROBE_QUICK"):
            self.skipTest("not of the quick part")
        if not os.path.exists(reader):
            self.skipTest("build/bin/list_tensors is not built")
        with self.checking("works", "damaged files: the same are refused"):
            run = subprocess.run([sys.executable, os.path.join(REPOSITORY, "tests", "fuzz", "differential", "differential.py"),
                                  reader, "--format", "safetensors", "--files", "1500"],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, universal_newlines=True)
            self.assertEqual(run.returncode, 0, run.stdout)
            self.assertNotIn("skipped", run.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
