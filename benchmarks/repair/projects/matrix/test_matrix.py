import unittest

from matrix import identity, multiply, trace, transpose


class MatrixTest(unittest.TestCase):
    def test_transpose(self):
        self.assertEqual(transpose([[1, 2, 3], [4, 5, 6]]), [[1, 4], [2, 5], [3, 6]])

    def test_identity_changes_nothing(self):
        self.assertEqual(multiply([[1, 2], [3, 4]], identity(2)), [[1, 2], [3, 4]])

    def test_product(self):
        self.assertEqual(multiply([[1, 2], [3, 4]], [[5, 6], [7, 8]]), [[19, 22], [43, 50]])

    def test_trace(self):
        self.assertEqual(trace([[1, 2], [3, 4]]), 5)
