"""Caesar's cipher."""

from string import ascii_lowercase as ALPHABET


def shift(letter, distance):
    if letter.lower() not in ALPHABET:
        return letter
    moved = ALPHABET[(ALPHABET.index(letter.lower()) + distance) % 26]
    return move.upper() if letter.isupper() else moved


def encode(text, distance):
    return "".join(shift(letter, distance) for letter in text)


def decode(text, distance):
    return encode(text, -distance)


def guess(text, word):
    """The distance at which the word turns up, or None."""
    for distance in range(26):
        if word in decode(text, distance):
            return distance
    return None
