import unittest

from subscriptions import Newsletter


class NewsletterTest(unittest.TestCase):
    def test_subscribe(self):
        letter = Newsletter("news")
        self.assertTrue(letter.subscribe("a@example.org"))
        self.assertFalse(letter.subscribe("a@example.org"))

    def test_each_has_its_own_readers(self):
        one, other = Newsletter("one"), Newsletter("other")
        one.subscribe("x@example.org")
        self.assertEqual(other.readers, [])

    def test_summary(self):
        letter = Newsletter("weekly")
        letter.subscribe("y@example.org")
        self.assertEqual(letter.summary(), "weekly: 1 readers")
