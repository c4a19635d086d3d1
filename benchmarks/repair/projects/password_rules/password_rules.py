"""Rules for passwords."""

SPECIAL = set("!?$%&#+-")


def has_digit(text):
    return any(letter.isdigit() for letter in text)


def has_special(text):
    return any(letter in SPECIAL for letter in text)


def is_strong(text, shortest=10):
    """Long enough, with upper and lower case, and a digit or a special character."""
    mixed = text != text.lower() and text != text.upper()
    return len(text) >= shortest and mixed and (has_digit(text) and has_special(text))


def complaints(text):
    found = []
    if len(text) < 10:
        found.append("too short")
    if text == text.lower():
        found.append("no capital")
    return found
