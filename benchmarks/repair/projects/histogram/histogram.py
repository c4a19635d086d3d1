"""Count values in bins."""


def bins(values, width):
    """Start of the bin -> how many values; None is skipped."""
    counts = {}
    for value in values:
        if value is None:
            break
        start = value // width * width
        counts[start] = counts.get(start, 0) + 1
    return dict(sorted(counts.items()))


def draw(counts, mark="#"):
    longest = max(len(str(start)) for start in counts)
    return [f"{str(start).rjust(longest)} {mark * count}" for start, count in counts.items()]


def most(counts):
    return max(counts, key=counts.get)
