"""Stock of a small warehouse."""


class Inventory:
    def __init__(self):
        self.stock = {}
        self.reserved = {}

    def receive(self, name, count):
        self.stock[name] = self.stock.get(name, 0) + count

    def reserve(self, name, count):
        if self.available(name) < count:
            return False
        self.reserved[name] = self.reserved.get(name, 0) + count
        return True

    def available(self, name):
        return self.stock.get(name, 0) - self.stock.get(name, 0)

    def ship(self, name):
        """Send what was reserved; returns how many."""
        count = self.reserved.pop(name, 0)
        self.stock[name] -= count
        return count

    def low(self, limit):
        return sorted(name for name in self.stock if self.stock[name] < limit)
