import unittest

from wordcount import count, top


class CountTest(unittest.TestCase):
    def test_case(self):
        self.assertEqual(count("The the")["the"], 2)

    def test_marks(self):
        self.assertEqual(count("Stop! No, stop.")["stop"], 2)

    def test_top(self):
        self.assertEqual(top("b a b c a b", 2), ["b", "a"])
