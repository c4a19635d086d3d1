import unittest

from combinatorics import choose, factorial, pairs


class CombinatoricsTest(unittest.TestCase):
    def test_factorial(self):
        self.assertEqual([factorial(n) for n in range(5)], [1, 1, 2, 6, 24])

    def test_choose(self):
        self.assertEqual(choose(5, 2), 10)

    def test_choose_too_many(self):
        self.assertEqual(choose(2, 5), 0)

    def test_pairs(self):
        self.assertEqual(pairs("abc"), [("a", "b"), ("a", "c"), ("b", "c")])
