"""Days of the week without the datetime module."""

NAMES = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


def is_leap(year):
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in_year(year):
    return 366 if is_leap(year) else 365


def weekday_after(name, days):
    """The day of the week that many days later."""
    return NAMES[(NAMES.index(name) + days) // 7]


def is_weekend(name):
    return NAMES.index(name) >= 5
