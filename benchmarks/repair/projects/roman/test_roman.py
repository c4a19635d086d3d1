import unittest

from roman import from_roman, to_roman


class RomanTest(unittest.TestCase):
    def test_small(self):
        self.assertEqual([to_roman(n) for n in (1, 4, 9, 14)], ["I", "IV", "IX", "XIV"])

    def test_year(self):
        self.assertEqual(to_roman(1987), "MCMLXXXVII")

    def test_forties(self):
        self.assertEqual(to_roman(44), "XLIV")

    def test_parse_forties(self):
        self.assertEqual(from_roman("XLII"), 42)

    def test_range(self):
        with self.assertRaises(ValueError):
            to_roman(0)
