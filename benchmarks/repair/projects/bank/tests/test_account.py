import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from bank import Account, InsufficientFunds


class AccountTest(unittest.TestCase):
    def test_deposit(self):
        account = Account("ada")
        account.deposit(5)
        self.assertEqual(account.balance, 5)

    def test_withdraw(self):
        account = Account("ada", 10)
        account.withdraw(4)
        self.assertEqual(account.balance, 6)

    def test_frozen(self):
        with self.assertRaises(PermissionError):
            Account("ada", 10, frozen=True).withdraw(1)

    def test_transfer(self):
        one, other = Account("ada", 10), Account("bob")
        one.transfer(other, 7)
        self.assertEqual((one.balance, other.balance), (3, 7))

    def test_too_much(self):
        with self.assertRaises(InsufficientFunds):
            Account("ada", 1).withdraw(2)
