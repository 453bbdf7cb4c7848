"""Tensors of files as NumPy arrays: msprobe.load(path), msprobe.show(path).arrays. Judged by NumPy's own reader where it has one."""
import json
import os
import shutil
import struct
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

try:
    import numpy
except ImportError:
    print("skipped: numpy is not installed (tools/install_dependencies.sh test)")
    sys.exit(77)

import msprobe

REPOSITORY = Path(__file__).resolve().parents[3]
RANK = REPOSITORY / "docs/example/npu/step0/rank"
WEIGHT = "Module.blocks.0.mlp.fc1.Linear.forward.0.parameters.weight"


def safetensors(path, tensors):
    """{name: (dtype, shape, bytes)}, written as the format says."""
    header, at = {}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
        at += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values()))


class Loading(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="msprobe_arrays_")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def check_borrowed(self, array):
        self.assertFalse(array.flags.writeable)
        base = array
        while base is not None and not isinstance(base, numpy.memmap):
            base = base.base
        self.assertIsInstance(base, numpy.memmap, "it was copied")

    def check_equal(self, array, expected):
        self.assertEqual((array.dtype, array.shape), (expected.dtype, expected.shape))
        numpy.testing.assert_array_equal(array, expected)

    def test_npy_files_of_any_dtype_and_order_are_mapped(self):
        for name in ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64"):
            for values in (numpy.arange(24).reshape(2, 3, 4).astype(name), numpy.asfortranarray(numpy.arange(6).reshape(2, 3).astype(name)),
                           numpy.array(1).astype(name)):
                with self.subTest(dtype=name, shape=values.shape):
                    numpy.save(self.folder / "x.npy", values)
                    arrays = msprobe.load(self.folder / "x.npy")
                    self.assertEqual(list(arrays), ["x.npy"])
                    self.check_equal(arrays["x.npy"], values)
                    self.check_borrowed(arrays["x.npy"])

    def test_arrays_without_elements_are_there(self):
        numpy.save(self.folder / "x.npy", numpy.empty((0, 3), "float32"))
        self.check_equal(msprobe.load(self.folder / "x.npy")["x.npy"], numpy.empty((0, 3), "float32"))

    def test_members_of_npz_files_are_mapped_or_unpacked(self):
        values = {"a": numpy.arange(5.0), "b": numpy.ones((2, 2), "int32")}
        numpy.savez(self.folder / "stored.npz", **values)
        numpy.savez_compressed(self.folder / "packed.npz", **values)
        for file in ("stored.npz", "packed.npz"):
            arrays = msprobe.load(self.folder / file)
            self.assertEqual(sorted(arrays), ["a", "b"])
            for name, array in arrays.items():
                self.check_equal(array, values[name])
                self.assertFalse(array.flags.writeable)
        self.check_borrowed(msprobe.load(self.folder / "stored.npz")["a"])

    def test_safetensors_with_bfloat16_become_float32(self):
        data = numpy.array([1.0, -2.5, 3.0e38, 0.0], "float32")
        bits = (data.view("uint32") >> 16).astype("uint16")
        safetensors(self.folder / "x.safetensors", {"w": ("BF16", [2, 2], bits.tobytes()), "v": ("F32", [4], data.tobytes())})
        arrays = msprobe.load(self.folder / "x.safetensors")
        with mock.patch.dict(sys.modules, ml_dtypes=None):
            array = arrays["w"]
        self.check_equal(array, (bits.astype("uint32") << 16).view("float32").reshape(2, 2))
        self.check_equal(arrays["v"], data)
        self.check_borrowed(arrays["v"])

    def test_dtypes_that_numpy_lacks_are_told(self):
        safetensors(self.folder / "x.safetensors", {"w": ("F8_E4M3", [2], b"\1\2")})
        arrays = msprobe.load(self.folder / "x.safetensors")
        with mock.patch.dict(sys.modules, ml_dtypes=None), self.assertRaisesRegex(msprobe.InputError, "float8_e4m3fn") as caught:
            arrays["w"]
        self.assertIn("ml_dtypes", caught.exception.hint)

    def test_a_tensor_of_pytorch_needs_no_pytorch(self):
        with mock.patch.dict(sys.modules, torch=None):
            arrays = msprobe.load(RANK / "dump_tensor_data" / (WEIGHT + ".pt"))
            array = arrays[WEIGHT + ".pt"]
        self.check_borrowed(array)
        self.assertEqual((array.shape, array.dtype), ((64, 16), numpy.float32))

    def test_rows_of_a_dump_lead_to_their_tensors(self):
        shown = msprobe.show(RANK / "dump.json")
        row = next(row for row in shown.records() if row["Name"] == WEIGHT)
        array = shown.arrays[WEIGHT]
        self.check_borrowed(array)
        self.assertAlmostEqual(float(array.max()), row["Max"], 6)
        self.assertAlmostEqual(float(numpy.linalg.norm(array.astype("float64"))), row["Norm"], 4)

    def test_a_folder_gives_the_tensors_of_its_files(self):
        arrays = msprobe.load(RANK / "dump_tensor_data")
        self.assertEqual(len(arrays), 164)
        self.assertEqual(arrays[WEIGHT + ".pt"].shape, (64, 16))

    def test_a_whole_dump_says_what_to_name_instead(self):
        with self.assertRaises(msprobe.InputError) as caught:
            msprobe.load(RANK.parent.parent)
        self.assertIn("dump.json", caught.exception.hint)

    def test_an_unknown_name_is_a_key_error(self):
        numpy.save(self.folder / "x.npy", numpy.zeros(1))
        self.assertRaises(KeyError, lambda: msprobe.load(self.folder / "x.npy")["y"])
        self.assertNotIn("y", msprobe.load(self.folder / "x.npy"))

    def test_a_file_that_shrank_since_is_an_input_error(self):
        numpy.save(self.folder / "x.npy", numpy.zeros(1000))
        arrays = msprobe.load(self.folder / "x.npy")
        os.truncate(self.folder / "x.npy", 200)
        self.assertRaises(msprobe.InputError, lambda: arrays["x.npy"])

    def test_a_dump_cannot_name_files_outside_of_its_folder(self):
        shutil.copytree(RANK, self.folder / "rank")
        dump = self.folder / "rank/dump.json"
        text = dump.read_text(encoding="utf-8")
        dump.write_text(text.replace('"%s.pt"' % WEIGHT, '"../../x.npy"'), encoding="utf-8")
        numpy.save(self.folder / "x.npy", numpy.zeros(3))
        self.assertRaises(msprobe.InputError, lambda: msprobe.load(dump)[WEIGHT])

    def test_names_of_any_kind(self):
        for name in ("-x.npy", "a b.npy", "é:x.npy"):
            numpy.save(self.folder / name, numpy.arange(3))
        before = Path.cwd()
        os.chdir(self.folder)
        self.addCleanup(os.chdir, before)
        self.check_equal(msprobe.load("-x.npy")["-x.npy"], numpy.arange(3))
        self.check_equal(msprobe.load(".")["é:x.npy"], numpy.arange(3))

    def test_big_endian_files_say_why_they_are_not_mapped(self):
        numpy.save(self.folder / "x.npy", numpy.arange(3, dtype=">f4"))
        self.assertRaisesRegex(msprobe.InputError, "byte order", lambda: msprobe.load(self.folder / "x.npy")["x.npy"])


if __name__ == "__main__":
    unittest.main()
