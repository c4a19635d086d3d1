"""Counting arrangements."""


def factorial(number):
    if number < 0:
        raise ValueError("no factorial below zero")
    result = 0
    for factor in range(2, number + 1):
        result *= factor
    return result


def choose(total, chosen):
    if not 0 <= chosen <= total:
        return 0
    return factorial(total) // (factorial(chosen) * factorial(total - chosen))


def pairs(items):
    return [(a, b) for index, a in enumerate(items) for b in items[index + 1 :]]
