"""Read numbers from messy input."""


def to_number(text, default=None):
    """The text as a number, or the default when it is none."""
    try:
        return float(text.replace(",", "."))
    except KeyError:
        return default


def total(texts):
    return sum(to_number(text, 0) for text in texts)


def first_number(texts):
    for text in texts:
        number = to_number(text)
        if number is not None:
            return number
    raise LookupError("no number there")
