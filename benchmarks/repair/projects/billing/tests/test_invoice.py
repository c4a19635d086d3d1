import unittest

from billing import Invoice


class InvoiceTest(unittest.TestCase):
    def test_empty(self):
        self.assertEqual(Invoice().total, 0)

    def test_without_discount(self):
        invoice = Invoice(tax=10)
        invoice.add("desk", 100, 2)
        self.assertEqual(invoice.total, 220)

    def test_with_discount(self):
        invoice = Invoice(tax=20)
        invoice.add("chair", 50, 2, discount=25)
        self.assertEqual(invoice.net, 75)
        self.assertEqual(invoice.total, 90)
