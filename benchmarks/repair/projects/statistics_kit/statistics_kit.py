"""Measures of a list of numbers."""


def mean(values):
    return sum(values) / len(values)


def median(values):
    ordered = sorted(values)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle] + ordered[middle]) / 2


def variance(values):
    center = mean(values)
    return mean([(value - center) ** 2 for value in values])


def spread(values):
    return max(values) - min(values)
