import unittest

import shipping


class ShippingTest(unittest.TestCase):
    def test_small_order_pays(self):
        self.assertEqual(shipping.order_total([10, 5], 2), 19.9)

    def test_exactly_the_limit_is_free(self):
        self.assertEqual(shipping.order_total([30, 20], 2), 50.0)

    def test_above_the_limit_is_free(self):
        self.assertEqual(shipping.shipping(80, 0.2), 0.0)

    def test_just_below_the_limit_pays(self):
        self.assertEqual(shipping.shipping(49.99, 0.2), 1.6)

    def test_pallets_always_pay(self):
        self.assertEqual(shipping.shipping(500, 200), 39.0)

    def test_thirty_kilos_is_a_parcel(self):
        self.assertEqual(shipping.kind_of(30), "parcel")
