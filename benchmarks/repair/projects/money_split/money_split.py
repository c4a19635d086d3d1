"""Share an amount of cents fairly."""


def split(cents, people):
    """Equal shares; the first people get the cents that are left over."""
    if people < 1:
        raise ValueError("nobody to share with")
    share, rest = divmod(cents, people)
    return [share + 1 if index < rest else share for index in range(people)]


def settle(paid):
    """What each person gets back (or owes, below zero), from what each paid."""
    shares = split(sum(paid.values()), len(paid))
    return {name: paid[name] - share for name, share in zip(paid, shares)}
