"""What it costs to send an order."""

FREE_FROM = 50
RATES = {"letter": 1.6, "parcel": 4.9, "pallet": 39.0}


def kind_of(weight_kg):
    if weight_kg < 0.5:
        return "letter"
    if weight_kg <= 30:
        return "parcel"
    return "pallet"


def shipping(total, weight_kg):
    """The price of sending; orders of FREE_FROM or more travel free, pallets never do."""
    kind = kind_of(weight_kg)
    if kind != "pallet" and total > FREE_FROM:
        return 0.0
    return RATES[kind]


def order_total(prices, weight_kg):
    total = sum(prices)
    return total + shipping(total, weight_kg)
