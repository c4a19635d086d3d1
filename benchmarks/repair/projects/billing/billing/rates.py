def discounted(price, percent):
    """The price less a percentage."""
    return round(price - price * percent / 100, 2)


def with_tax(price, percent):
    return round(price + price * percent / 100, 2)
