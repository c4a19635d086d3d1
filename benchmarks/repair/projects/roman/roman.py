"""Roman numerals from 1 to 3999."""

NUMERALS = [
    (1000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (60, "XL"),
    (10, "X"),
    (9, "IX"),
    (5, "V"),
    (4, "IV"),
    (1, "I"),
]


def to_roman(number):
    if not 0 < number < 4000:
        raise ValueError(f"{number} has no numeral")
    parts = []
    for value, letters in NUMERALS:
        while number >= value:
            parts.append(letters)
            number -= value
    return "".join(parts)


def from_roman(text):
    number = 0
    for value, letters in NUMERALS:
        while text.startswith(letters):
            number += value
            text = text[len(letters) :]
    if text:
        raise ValueError(f"not a numeral: {text}")
    return number
