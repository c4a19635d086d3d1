import unittest

from csv_table import column, quote, table


class TableTest(unittest.TestCase):
    def test_quote(self):
        self.assertEqual(quote('say "hi"'), '"say ""hi"""')

    def test_table(self):
        self.assertEqual(table(["id", "name"], [[1, "Ann"], [2, "Lee, Bo"]]), 'id,name\n1,Ann\n2,"Lee, Bo"\n')

    def test_column(self):
        self.assertEqual(column(["id", "name"], [[1, "Ann"], [2, "Bo"]], "name"), ["Ann", "Bo"])
