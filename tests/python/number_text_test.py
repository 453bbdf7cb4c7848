"""Our number and text spellings against Python's own, over many random values.

usage: number_text_test.py PATH_TO_number_text_echo
"""
import math
import random
import struct
import subprocess
import sys
import unittest

ECHO = None
COUNT = 100_000


def hex_of(value):
    return "%016x" % struct.unpack("<Q", struct.pack("<d", value))[0]


def ask(mode, lines):
    text = "".join(line + "\n" for line in lines)
    answer = subprocess.run([ECHO, mode], input=text.encode(), stdout=subprocess.PIPE, check=True).stdout
    return answer.decode().split("\n")[:-1]


def random_doubles(count, seed):
    """Half random bit patterns (all magnitudes), half the short decimals that people and float32 produce."""
    source = random.Random(seed)
    values = [0.0, -0.0, math.inf, -math.inf, math.nan, 5e-324, sys.float_info.max, 1e15, 1e16, 1e17, 1e22, 1e23, 1e-4, 1e-5]
    for exponent in range(-330, 310):
        values += [float("1e%d" % exponent), float("9.999999999999999e%d" % exponent)]
    while len(values) < count:
        values.append(struct.unpack("<d", struct.pack("<Q", source.getrandbits(64)))[0])
        values.append(struct.unpack("<f", struct.pack("<I", source.getrandbits(32)))[0])
        values.append(round(source.uniform(-1e6, 1e6), source.randrange(12)))
        values.append(float(source.randrange(-2**62, 2**62)))
    return values


class NumberText(unittest.TestCase):
    def test_float_repr_equals_python(self):
        values = random_doubles(COUNT, 1)
        for value, text in zip(values, ask("repr", map(hex_of, values))):
            self.assertEqual(text, repr(value))

    def test_sixteen_digits_equal_python(self):
        values = [v for v in random_doubles(COUNT, 2) if math.isfinite(v)]
        for value, text in zip(values, ask("general", map(hex_of, values))):
            self.assertEqual(text, "%.16g" % value)

    def test_parsing_equals_float(self):
        values = random_doubles(COUNT // 2, 3)
        texts = [repr(v) for v in values] + ["%.20e" % v for v in values] + [
            "1e400", "-1e400", "1e-400", "4.9e-324", "2.4703282292062327208e-324", "0x1p3", "infinity", "iNf", "+nan",
            "-nan", "- 1", "1e+5", "1e 5", ".e1", "..", "1.e3", "00012", "٣", "1d5", "true"]
        for text, bits in zip(texts, ask("parse", texts)):
            try:
                expected = float(text)
            except ValueError:
                expected = None
            if text == "٣":  # Python reads other scripts' digits; no dump holds them
                expected = None
            if expected is None:
                self.assertEqual(bits, "none", text)
            elif math.isnan(expected):
                self.assertTrue(math.isnan(struct.unpack("<d", struct.pack("<Q", int(bits, 16)))[0]), text)
            else:
                self.assertEqual(bits, hex_of(expected), text)

    def test_text_repr_equals_python(self):
        source = random.Random(4)
        alphabet = [chr(c) for c in range(128)] + list("'\"\\äß中文π")
        texts = ["".join(source.choice(alphabet) for _ in range(source.randrange(12))) for _ in range(20_000)]
        for text, answer in zip(texts, ask("text", (t.encode().hex() for t in texts))):
            self.assertEqual(answer, repr(text))


if __name__ == "__main__":
    ECHO = sys.argv.pop(1)
    unittest.main(verbosity=2)
