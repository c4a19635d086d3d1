import unittest

from stack_machine import evaluate


class EvaluateTest(unittest.TestCase):
    def test_sum(self):
        self.assertEqual(evaluate("1 2 +"), 3)

    def test_difference(self):
        self.assertEqual(evaluate("9 4 -"), 5)

    def test_nested(self):
        self.assertEqual(evaluate("2 3 4 + *"), 14)

    def test_quotient(self):
        self.assertEqual(evaluate("8 2 /"), 4)

    def test_missing_operand(self):
        with self.assertRaises(ValueError):
            evaluate("1 +")
