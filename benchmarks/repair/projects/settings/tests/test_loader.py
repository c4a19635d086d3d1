import unittest

from settings import load
from settings.loader import parse


class LoaderTest(unittest.TestCase):
    def test_parse(self):
        self.assertEqual(parse("a = 1 # one\n\nb=2"), {"a": "1", "b": "2"})

    def test_defaults(self):
        self.assertEqual(load("")["url"], "http://localhost:8080")

    def test_override(self):
        self.assertEqual(load("port = 99")["port"], 99)

    def test_debug(self):
        self.assertTrue(load("debug = yes")["debug"])
        self.assertFalse(load("debug = no")["debug"])
