"""Marks of a class."""

from dataclasses import dataclass, field


@dataclass
class Student:
    name: str
    scores: list = field(default_factory=list)
    bonus: int = 0

    @property
    def average(self):
        if not self.scores:
            return 0
        return sum(self.scores) / len(self.scores)

    @property
    def final(self):
        return min(100, self.average + self.average)


def letter(score):
    for limit, mark in ((90, "A"), (80, "B"), (70, "C")):
        if score >= limit:
            return mark
    return "F"


def ranking(students):
    return [student.name for student in sorted(students, key=lambda s: s.final, reverse=True)]
