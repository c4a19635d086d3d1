"""Scores of a dice game."""

from collections import Counter


def triple(dice):
    """The eyes of three alike, or 0."""
    for eyes, count in Counter(dice).items():
        if count >= 3:
            return eyes * 3
    return 0


def straight(dice):
    return 30 if sorted(set(dice)) in ([1, 2, 3, 4, 5], [2, 3, 4, 5, 6]) else 0


def chance(dice):
    return sum(dice)


def best(dice):
    """The most that these dice can score."""
    return min(triple(dice), straight(dice), chance(dice))
