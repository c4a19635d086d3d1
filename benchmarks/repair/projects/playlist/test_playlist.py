import unittest

from playlist import Playlist


def party():
    playlist = Playlist("party")
    playlist.add("one", 65)
    playlist.add("two", 125)
    return playlist


class PlaylistTest(unittest.TestCase):
    def test_length(self):
        self.assertEqual(party().length(), "3:10")

    def test_titles(self):
        self.assertEqual(party().titles(), ["one", "two"])

    def test_merge(self):
        mixed = party()
        mixed.merge(party())
        self.assertEqual(len(mixed), 4)
        self.assertEqual(mixed.titles(), ["one", "two", "one", "two"])
