import unittest

from durations import parse, show


class DurationsTest(unittest.TestCase):
    def test_minutes(self):
        self.assertEqual(parse("45m"), 2700)

    def test_mixed(self):
        self.assertEqual(parse("1h30m"), 5400)

    def test_show(self):
        self.assertEqual(show(3725), "1h2m5s")

    def test_nothing(self):
        self.assertEqual(show(0), "0s")

    def test_bad(self):
        with self.assertRaises(ValueError):
            parse("1x")
