import unittest

from messy import first_number, to_number, total


class NumbersTest(unittest.TestCase):
    def test_comma(self):
        self.assertEqual(to_number("1,5"), 1.5)

    def test_no_number(self):
        self.assertIsNone(to_number("x"))

    def test_total(self):
        self.assertEqual(total(["1", "?", "2"]), 3)

    def test_first(self):
        self.assertEqual(first_number(["a", "7"]), 7)

    def test_none(self):
        with self.assertRaises(LookupError):
            first_number([])
