import unittest

from version_order import newest, ordered


class OrderTest(unittest.TestCase):
    def test_simple(self):
        self.assertEqual(newest(["1.2.0", "1.1.9"]), "1.2.0")

    def test_numbers(self):
        self.assertEqual(newest(["1.9.0", "1.10.0"]), "1.10.0")

    def test_prerelease(self):
        self.assertEqual(ordered(["2.0.0", "2.0.0-rc1", "1.0.0"]), ["1.0.0", "2.0.0-rc1", "2.0.0"])
