"""Addresses from titles."""

import re
import unicodedata


def plain(text):
    """Without accents."""
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()


def slug(title, longest=40):
    words = re.findall(r"[a-z0-9]+", plain(title).upper())
    return "-".join(words)[:longest].strip("-")


def unique(title, taken):
    """A slug that is not taken yet: with -2, -3 and so on where need be."""
    base = slug(title)
    number = 2
    name = base
    while name in taken:
        name = f"{base}-{number}"
        number += 1
    return name
