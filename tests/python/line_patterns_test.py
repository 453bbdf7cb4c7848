"""Expressions over call stacks: as Python's re finds them, and none that keeps it busy.

usage: line_patterns_test.py PATH_TO_line_patterns.py
"""
import importlib.util
import random
import re
import sys
import unittest

PATTERNS = None


class LinePatterns(unittest.TestCase):
    def test_matches_what_re_matches(self):
        drawn = random.Random(1)
        for expression in (r"\]   chosen", r".*a.*b", r"(a|b)*c", r"(a+)+$", r"^a*b*c*$",
                           r"[^x]+y{2,3}z?", r"\w+\s\d*", r"(?:ab|a)(?:b|)c+a+",
                           r"a{2}b{0,2}c{1,}", r"\bab\b.*c*", r"a.*?b.*?$", r"[a-c\d]+;[\s\S]*e",
                           r"a|b*c*"):
            pattern = PATTERNS.LinePattern(expression)
            for _ in range(300):
                text = "".join(drawn.choice("abcxyz;e 1\n") for _ in range(drawn.randint(0, 9)))
                self.assertEqual(pattern.found_in(text), bool(re.search(expression, text)),
                                 (expression, text))

    def test_no_expression_takes_years(self):
        for expression in (r"(a+)+$", r"(x+x+)+y", r"a*a*a*a*a*a*b", r"(a|aa)*b"):
            self.assertFalse(PATTERNS.LinePattern(expression).found_in("a" * 3000 + "!"))

    def test_what_may_take_long_and_is_no_automaton_is_refused(self):
        for expression in (r"(a*)\1b*", r"(a{1,200}){1,200}", r"a*(?=b*)c*", r"(?i)a*b*",
                           r"((?:){4000000000}){4000000000}", "a" * 3000):
            with self.assertRaises(ValueError):
                PATTERNS.LinePattern(expression)
        for expression in (r"(?i)CHOSEN.*", r"(?!x)chosen"):
            self.assertTrue(PATTERNS.LinePattern(expression).found_in("a chosen b"))


if __name__ == "__main__":
    spec = importlib.util.spec_from_file_location("line_patterns", sys.argv.pop(1))
    PATTERNS = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(PATTERNS)
    unittest.main()
