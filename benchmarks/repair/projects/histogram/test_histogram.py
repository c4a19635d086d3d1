import unittest

from histogram import bins, draw, most


class HistogramTest(unittest.TestCase):
    def test_bins(self):
        self.assertEqual(bins([1, 4, 5, 12], 5), {0: 2, 5: 1, 10: 1})

    def test_gaps_are_skipped(self):
        self.assertEqual(bins([1, None, 7], 5), {0: 1, 5: 1})

    def test_draw(self):
        self.assertEqual(draw({0: 2, 10: 1}), [" 0 ##", "10 #"])

    def test_most(self):
        self.assertEqual(most({0: 2, 5: 9}), 5)
