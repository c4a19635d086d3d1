import unittest

from inventory import Inventory


class InventoryTest(unittest.TestCase):
    def setUp(self):
        self.inventory = Inventory()
        self.inventory.receive("bolt", 10)

    def test_receive_adds_up(self):
        self.inventory.receive("bolt", 5)
        self.assertEqual(self.inventory.stock["bolt"], 15)

    def test_available(self):
        self.assertEqual(self.inventory.available("bolt"), 10)

    def test_reserve(self):
        self.assertTrue(self.inventory.reserve("bolt", 8))
        self.assertFalse(self.inventory.reserve("bolt", 3))

    def test_ship(self):
        self.inventory.reserve("bolt", 4)
        self.assertEqual(self.inventory.ship("bolt"), 4)
        self.assertEqual(self.inventory.available("bolt"), 6)

    def test_low(self):
        self.inventory.receive("nut", 2)
        self.assertEqual(self.inventory.low(5), ["nut"])
