import unittest

from polls.ballot import Ballot
from polls.report import lines, winners


def voted(*choices):
    ballot = Ballot(["tea", "coffee"])
    for choice in choices:
        ballot.vote(choice)
    return ballot


class PollsTest(unittest.TestCase):
    def test_winner(self):
        self.assertEqual(winners(voted("tea")), ["tea"])

    def test_tie(self):
        self.assertEqual(winners(voted("tea", "coffee")), ["tea", "coffee"])

    def test_lines(self):
        self.assertEqual(lines(voted("tea", "tea", "coffee")), ["tea: 67 %", "coffee: 33 %"])

    def test_unknown(self):
        with self.assertRaises(KeyError):
            voted("milk")
