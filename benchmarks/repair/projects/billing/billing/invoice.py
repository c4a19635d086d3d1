from .rates import discounted, with_tax


class Invoice:
    """Lines of an invoice; a discount applies before tax."""

    def __init__(self, tax=20):
        self.tax = tax
        self.lines = []

    def add(self, name, price, count=1, discount=0):
        self.lines.append((name, price * count, discount))

    @property
    def net(self):
        return round(sum(discounted(discount, price) for _, price, discount in self.lines), 2)

    @property
    def total(self):
        return with_tax(self.net, self.tax)
