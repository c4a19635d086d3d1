import unittest

from primes import factors, is_prime, primes_up_to


class PrimesTest(unittest.TestCase):
    def test_small(self):
        self.assertEqual(primes_up_to(7), [2, 3, 5, 7])

    def test_squares_are_not_prime(self):
        self.assertFalse(is_prime(49))

    def test_large(self):
        self.assertTrue(is_prime(7919))

    def test_factors(self):
        self.assertEqual(factors(60), [2, 2, 3, 5])
