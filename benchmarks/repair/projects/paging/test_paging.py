import unittest

from paging import page, page_count, page_links


class PagingTest(unittest.TestCase):
    def test_first_page(self):
        self.assertEqual(page(list("abcdefg"), 1, 3), ["a", "b", "c"])

    def test_last_page_is_short(self):
        self.assertEqual(page(list("abcdefg"), 3, 3), ["g"])

    def test_count_rounds_up(self):
        self.assertEqual(page_count(7, 3), 3)

    def test_links(self):
        self.assertEqual(page_links(2, 10), [1, 2, 3, 4])

    def test_beyond_the_end(self):
        with self.assertRaises(IndexError):
            page([1, 2], 2, 3)
