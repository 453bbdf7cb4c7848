"""Workbooks of ours read back by openpyxl: values, colours, frozen header, filter, split sheets.

usage: xlsx_writer_test.py PATH_TO_xlsx_sample
"""
import subprocess
import sys
import tempfile
import unittest
import zipfile

try:
    import openpyxl
except ImportError:
    print("openpyxl is not installed: skipped")
    sys.exit(77)

SAMPLE = None
FOLDER = None


def load(name, **options):
    return openpyxl.load_workbook("%s/%s.xlsx" % (FOLDER, name), **options)


class Archive(unittest.TestCase):
    def test_every_member_has_its_checksum(self):
        for name in ("cells", "split", "long"):
            with zipfile.ZipFile("%s/%s.xlsx" % (FOLDER, name)) as archive:
                self.assertIsNone(archive.testzip())


class Cells(unittest.TestCase):
    def setUp(self):
        self.book = load("cells")
        self.sheet = self.book.worksheets[0]

    def test_sheets_have_their_names(self):
        self.assertEqual(self.book.sheetnames, ["Cells & <more>", "no rows"])

    def test_texts_come_back(self):
        texts = [row[0].value for row in self.sheet.iter_rows(min_row=2)]
        self.assertEqual(texts[:4], ["plain", "<a href=\"x\">&amp;</a>", "-inf\t", " \u4f60\u597d \U0001F600\n second line "])
        self.assertEqual(texts[4], "bell_ stray_ end")
        self.assertIn(texts[6], (None, ""))
        self.assertEqual(texts[7], "x" * 32767)

    def test_numbers_come_back_with_sixteen_digits(self):
        numbers = [row[1].value for row in self.sheet.iter_rows(min_row=2)]
        self.assertEqual(numbers[:6], [42, 3.686069011688232, -1e300, 2 ** 63 - 1, 0.1, None])
        self.assertIsInstance(numbers[0], int)

    def test_nothing_is_a_formula(self):
        cell = self.sheet["A7"]
        self.assertEqual(cell.value, "=SUM(A1:A9)")
        with zipfile.ZipFile("%s/cells.xlsx" % FOLDER) as archive:
            self.assertNotIn(b"<f>", archive.read("xl/worksheets/sheet1.xml"))

    def test_rows_have_their_colours(self):
        for cell in self.sheet[3]:
            self.assertEqual(cell.fill.fill_type, "solid")
            self.assertEqual(cell.fill.fgColor.rgb, "FFFF0000")
            self.assertEqual(cell.fill.bgColor.rgb, "FFFF0000")
        for cell in self.sheet[4]:
            self.assertEqual(cell.fill.fgColor.rgb, "00FFFF00")
        for cell in self.sheet[2]:
            self.assertIsNone(cell.fill.fill_type)
        self.assertEqual(self.sheet["B7"].fill.fgColor.rgb, "FFFF0000", "an empty cell of a red row")

    def test_header_is_frozen_and_filtered(self):
        self.assertEqual(self.sheet.freeze_panes, "A2")
        self.assertEqual(self.sheet.auto_filter.ref, "A1:C9")
        self.assertFalse(self.sheet["A1"].font.b)

    def test_a_table_without_rows_keeps_its_header(self):
        self.assertEqual([[cell.value for cell in row] for row in self.book["no rows"].iter_rows()], [["only"]])


class Split(unittest.TestCase):
    def test_a_long_table_continues_on_further_sheets(self):
        book = load("split")
        self.assertEqual(book.sheetnames, ["stats", "stats_2", "stats_3"])
        numbers = []
        for sheet in book.worksheets:
            rows = list(sheet.iter_rows(values_only=True))
            self.assertEqual(rows[0], ("n", "name"))
            numbers += [row[0] for row in rows[1:]]
        self.assertEqual(numbers, list(range(25)))

    def test_the_styled_header_is_bold_centred_and_bordered(self):
        sheet = load("split").worksheets[0]
        self.assertIsNone(sheet.freeze_panes)
        self.assertIsNone(sheet.auto_filter.ref)
        for cell in sheet[1]:
            self.assertTrue(cell.font.b)
            self.assertEqual(cell.alignment.horizontal, "center")
            for side in (cell.border.left, cell.border.right, cell.border.top, cell.border.bottom):
                self.assertEqual(side.style, "thin")
        self.assertFalse(sheet["A2"].font.b)


class Long(unittest.TestCase):
    def test_blocks_join_without_a_seam(self):
        sheet = load("long", read_only=True).worksheets[0]
        expected = 0
        for row in sheet.iter_rows(min_row=2, values_only=True):
            self.assertEqual(row, (expected, expected / 8, "Functional.linear.%d" % expected))
            expected += 1
        self.assertEqual(expected, 70000)


if __name__ == "__main__":
    SAMPLE = sys.argv.pop(1)
    with tempfile.TemporaryDirectory() as folder:
        FOLDER = folder
        subprocess.run([SAMPLE, folder], check=True)
        unittest.main(verbosity=2)
