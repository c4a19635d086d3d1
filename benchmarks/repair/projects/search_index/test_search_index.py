import unittest

from search_index import Index, words


class IndexTest(unittest.TestCase):
    def setUp(self):
        self.index = Index()
        self.index.add("a", "The cat sat.")
        self.index.add("b", "A dog and a cat")
        self.index.add("c", "Nothing here")

    def test_words(self):
        self.assertEqual(words("It's Me"), ["it", "s", "me"])

    def test_one_match(self):
        self.assertEqual(self.index.find("dog"), ["b"])

    def test_several_matches(self):
        self.assertEqual(self.index.find("cat"), ["a", "b"])

    def test_all_words(self):
        self.assertEqual(self.index.find("cat sat"), ["a"])
