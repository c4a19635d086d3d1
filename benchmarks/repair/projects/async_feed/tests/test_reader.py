import asyncio
import unittest

from feed.reader import read_all, read_page
from feed.source import Source

PAGES = {1: [" a", "b "], 2: ["c"]}


class ReaderTest(unittest.TestCase):
    def test_fetch(self):
        self.assertEqual(asyncio.run(Source(PAGES).fetch(2)), ["c"])

    def test_page(self):
        self.assertEqual(asyncio.run(read_page(Source(PAGES), 1)), ["a", "b"])

    def test_all(self):
        self.assertEqual(asyncio.run(read_all(Source(PAGES))), ["a", "b", "c"])
