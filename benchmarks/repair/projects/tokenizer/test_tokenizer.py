import unittest

from tokenizer import Tokenizer


class TokenizerTest(unittest.TestCase):
    def test_empty(self):
        self.assertEqual(Tokenizer("").tokens(), [])

    def test_take(self):
        tokenizer = Tokenizer("ab")
        self.assertEqual(tokenizer.take() + tokenizer.take(), "ab")

    def test_number(self):
        self.assertEqual(Tokenizer("42").number(), 42)

    def test_expression(self):
        self.assertEqual(Tokenizer("1 + 23*4").tokens(), [1, "+", 23, "*", 4])
