import unittest

from money_split import settle, split


class SplitTest(unittest.TestCase):
    def test_even(self):
        self.assertEqual(split(900, 3), [300, 300, 300])

    def test_rest(self):
        self.assertEqual(split(1000, 3), [334, 333, 333])

    def test_nobody(self):
        with self.assertRaises(ValueError):
            split(1, 0)

    def test_settle(self):
        self.assertEqual(settle({"ann": 600, "bob": 0}), {"ann": 300, "bob": -300})

    def test_settle_gives_the_extra_cent_by_name(self):
        self.assertEqual(settle({"bob": 0, "ann": 5}), {"ann": 2, "bob": -2})
