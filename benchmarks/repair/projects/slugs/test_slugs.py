import unittest

from slugs import plain, slug, unique


class SlugTest(unittest.TestCase):
    def test_plain(self):
        self.assertEqual(plain("Crème Brûlée"), "Creme Brulee")

    def test_slug(self):
        self.assertEqual(slug("Hello, World!"), "hello-world")

    def test_longest(self):
        self.assertEqual(slug("a b c d", longest=4), "a-b")

    def test_unique(self):
        self.assertEqual(unique("Hello", {"hello", "hello-2"}), "hello-3")
