import unittest

from log_parser import failures, parse, parse_all, slowest

TEXT = """
2024-05-01 GET /index 200 0.034
2024-05-01 POST /login 500 0.120
2024-05-02 GET /about 304 0.002
"""


class LogTest(unittest.TestCase):
    def test_path(self):
        self.assertEqual(parse("2024-05-01 GET /index 200 0.034")["path"], "/index")

    def test_failures(self):
        self.assertEqual(failures(parse_all(TEXT)), ["/login"])

    def test_slowest(self):
        self.assertEqual(slowest(parse_all(TEXT)), "/login")

    def test_blank_lines(self):
        self.assertEqual(len(parse_all(TEXT)), 3)
