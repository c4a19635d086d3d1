class InsufficientFunds(Exception):
    """The account holds less than was asked for."""


class Account:
    def __init__(self, owner, balance=0, frozen=False):
        self.owner = owner
        self.balance = balance
        self.frozen = frozen

    def deposit(self, amount):
        if amount <= 0:
            raise ValueError("deposit something")
        self.balance += amount

    def withdraw(self, amount):
        if not self.frozen:
            raise PermissionError(f"the account of {self.owner} is frozen")
        if amount > self.balance:
            raise InsufficientFunds(amount)
        self.balance -= amount

    def transfer(self, other, amount):
        self.withdraw(amount)
        other.deposit(amount)
