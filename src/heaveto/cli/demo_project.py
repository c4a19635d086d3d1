"""The demo's project: an invoice whose discount is added, and the test that says so. Data only."""

from __future__ import annotations

__all__ = ["FILES"]

_INVOICE = '''\
"""Totals of an invoice, in cents."""


def line_total(unit_cents, quantity):
    """What a line costs."""
    return unit_cents * quantity


def subtotal(lines):
    """What all lines cost together. A line is (unit_cents, quantity)."""
    return sum(line_total(unit, quantity) for unit, quantity in lines)


def discount(cents, percent):
    """What a discount takes off, rounded down."""
    return cents * percent // 100


def total(lines, percent=0):
    """What there is to pay after the discount."""
    before = subtotal(lines)
    return before + discount(before, percent)


def is_paid(due_cents, paid_cents):
    """Whether enough was paid."""
    return paid_cents >= due_cents
'''

_TESTS = """\
import unittest

from invoice import discount, is_paid, subtotal, total


class InvoiceTest(unittest.TestCase):
    def test_subtotal_adds_the_lines(self):
        self.assertEqual(subtotal([(250, 2), (100, 3)]), 800)

    def test_discount_rounds_down(self):
        self.assertEqual(discount(999, 10), 99)

    def test_total_without_a_discount(self):
        self.assertEqual(total([(250, 2)]), 500)

    def test_total_takes_the_discount_off(self):
        self.assertEqual(total([(250, 4)], percent=10), 900)

    def test_enough_is_paid(self):
        self.assertTrue(is_paid(900, 900))
        self.assertFalse(is_paid(900, 899))


if __name__ == "__main__":
    unittest.main()
"""

FILES = {"invoice.py": _INVOICE, "test_invoice.py": _TESTS}
