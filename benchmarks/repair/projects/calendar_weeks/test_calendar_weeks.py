import unittest

from calendar_weeks import days_in_year, is_leap, is_weekend, weekday_after


class WeeksTest(unittest.TestCase):
    def test_next_day(self):
        self.assertEqual(weekday_after("Monday", 1), "Tuesday")

    def test_next_week(self):
        self.assertEqual(weekday_after("Friday", 7), "Friday")

    def test_over_the_weekend(self):
        self.assertEqual(weekday_after("Saturday", 3), "Tuesday")

    def test_leap_years(self):
        self.assertEqual([y for y in (1900, 2000, 2023, 2024) if is_leap(y)], [2000, 2024])

    def test_days(self):
        self.assertEqual(days_in_year(2024), 366)

    def test_weekend(self):
        self.assertTrue(is_weekend("Sunday"))
