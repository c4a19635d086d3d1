import unittest

from cipher import decode, encode, guess


class CipherTest(unittest.TestCase):
    def test_lower(self):
        self.assertEqual(encode("xyz", 3), "abc")

    def test_upper(self):
        self.assertEqual(encode("Attack!", 1), "Buubdl!")

    def test_back(self):
        self.assertEqual(decode("khoor", 3), "hello")

    def test_guess(self):
        self.assertEqual(guess("khoor", "hello"), 3)
