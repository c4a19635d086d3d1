import unittest

from textwrapper import fill, wrap


class WrapTest(unittest.TestCase):
    def test_short(self):
        self.assertEqual(wrap("hello", 10), ["hello"])

    def test_breaks_between_words(self):
        self.assertEqual(wrap("the quick brown fox", 10), ["the quick", "brown fox"])

    def test_exact_width(self):
        self.assertEqual(wrap("ab cd", 5), ["ab cd"])

    def test_fill(self):
        self.assertEqual(fill("a b c", 5, "> "), "> a b\n> c")

    def test_empty(self):
        self.assertEqual(wrap("", 5), [])
