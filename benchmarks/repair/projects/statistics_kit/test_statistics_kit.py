import unittest

from statistics_kit import mean, median, spread, variance


class MeasuresTest(unittest.TestCase):
    def test_mean(self):
        self.assertEqual(mean([1, 2, 6]), 3)

    def test_median_of_odd(self):
        self.assertEqual(median([9, 1, 5]), 5)

    def test_median_of_even(self):
        self.assertEqual(median([4, 1, 3, 2]), 2.5)

    def test_variance(self):
        self.assertEqual(variance([2, 4, 4, 4, 5, 5, 7, 9]), 4)

    def test_spread(self):
        self.assertEqual(spread([3, -1]), 4)
