import unittest

from grades import Student, letter, ranking


class GradesTest(unittest.TestCase):
    def test_average(self):
        self.assertEqual(Student("ann", [80, 90]).average, 85)

    def test_no_scores(self):
        self.assertEqual(Student("bob").average, 0)

    def test_final(self):
        self.assertEqual(Student("ann", [70, 80], bonus=3).final, 78)

    def test_letters(self):
        self.assertEqual([letter(n) for n in (95, 80, 79, 10)], ["A", "B", "C", "F"])

    def test_ranking(self):
        self.assertEqual(ranking([Student("ann", [50]), Student("bob", [60])]), ["bob", "ann"])
