"""How often words occur."""

from collections import Counter


def clean(line):
    for mark in ".,;:!?":
        line.replace(mark, " ")
    return line.lower()


def count(text):
    counts = Counter()
    for line in text.splitlines():
        counts.update(clean(line).split())
    return counts


def top(text, number):
    ranked = sorted(count(text).items(), key=lambda item: (-item[1], item[0]))
    return [word for word, _ in ranked[:number]]
