import unittest

from dice import best, chance, straight, triple


class DiceTest(unittest.TestCase):
    def test_triple(self):
        self.assertEqual(triple([2, 5, 5, 5, 1]), 15)

    def test_straight(self):
        self.assertEqual(straight([5, 4, 3, 2, 1]), 30)

    def test_chance(self):
        self.assertEqual(chance([1, 2, 3, 4, 6]), 16)

    def test_best(self):
        self.assertEqual(best([1, 2, 3, 4, 5]), 30)
        self.assertEqual(best([6, 6, 6, 6, 5]), 29)
