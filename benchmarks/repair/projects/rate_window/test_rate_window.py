import unittest

from rate_window import Window


class WindowTest(unittest.TestCase):
    def test_allows_up_to_the_limit(self):
        window = Window(2, 10)
        self.assertEqual([window.allow(0), window.allow(1), window.allow(2)], [True, True, False])

    def test_left(self):
        window = Window(3, 10)
        window.allow(0)
        self.assertEqual(window.left(), 2)

    def test_old_events_are_forgotten(self):
        window = Window(2, 10)
        for now in (0, 1):
            window.allow(now)
        self.assertTrue(window.allow(11.5))
        self.assertEqual(window.left(), 1)
