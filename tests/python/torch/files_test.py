"""What the Python side reads of others and writes for spreadsheets: the same rules as the program's."""
import os
import socket
import tempfile
import threading
import unittest

from msprobe import _files

# Of tests/unit/base/csv_cell_test.cpp.
FORMULAS = ["=1+1", "@SUM(A1)", "+cmd|x", "-2+3", "\uff1d1+1", "\uff20SUM(A1)", "\uff0b1", "\uff0d1", "\uff1dcmd|' /C calc'!A0", "=",
            "@", "  =1", " \t\uff1d1", "\u00a0=1", "\u3000\uff1d1", "\u200b=1", "\ufeff\uff0b1", " +a", "\tx", "\r=1", "\n\uff1d1", "\"=1\"",
            "=HYPERLINK(\"x\",1)"]
TEXTS = ["", "a=b", "a\uff1db", "-1", "-inf", "+0.5", " -1", "-0.5;0.25", "-", "\uff0b", "\uff0d", "  ", "layer.0.weight", "'=1",
         "\uff11\uff0b\uff11", "a,b", "a\"b"]


class CsvRow(unittest.TestCase):
    def test_formulas_are_disarmed_in_every_width(self):
        for text in FORMULAS:
            self.assertTrue(_files.looks_like_formula(text), repr(text))
            self.assertIn("'" + text[0].replace('"', '""'), _files.csv_row([text]))
        self.assertEqual(_files.csv_row(["=\"a\",b", "\uff1d1"]), "\"'=\"\"a\"\",b\",'\uff1d1\r\n")

    def test_other_texts_and_numbers_are_left_alone(self):
        for text in TEXTS:
            self.assertFalse(_files.looks_like_formula(text), repr(text))
        self.assertEqual(_files.csv_row(["a", -1, -1.5, None, True, float("-inf")], "\n"), "a,-1,-1.5,,True,-inf\n")


class ReadText(unittest.TestCase):
    def test_what_is_no_file_is_an_error_and_not_waited_for(self):
        with tempfile.TemporaryDirectory() as folder:
            def place(name):
                return os.path.join(folder, name)
            os.mkfifo(place("fifo"))
            os.mkdir(place("folder"))
            os.symlink("fifo", place("link"))
            os.symlink("nothing", place("dangling"))
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(place("socket"))
                outcomes = {}

                def attempt(path):
                    try:
                        outcomes[path] = _files.read_text(path)
                    except OSError as error:
                        outcomes[path] = error
                paths = [place(name) for name in ("fifo", "folder", "link", "dangling", "socket")] + ["/dev/zero", "/dev/full"]
                for path in paths:
                    thread = threading.Thread(target=attempt, args=(path,), daemon=True)
                    thread.start()
                    thread.join(10)
                    self.assertIsInstance(outcomes.get(path), OSError, path)

    def test_a_file_is_read_up_to_its_limit(self):
        with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
            file.write("\u4f60")
            file.flush()
            self.assertEqual(_files.read_text(file.name), "\u4f60")
            self.assertEqual(_files.read_text(file.name, 3), "\u4f60")
            self.assertRaises(ValueError, _files.read_text, file.name, 2)


if __name__ == "__main__":
    unittest.main()
