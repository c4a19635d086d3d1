import unittest

from password_rules import complaints, has_special, is_strong


class StrongTest(unittest.TestCase):
    def test_digit_is_enough(self):
        self.assertTrue(is_strong("CorrectHorse7"))

    def test_special_is_enough(self):
        self.assertTrue(is_strong("Correct+Horse"))

    def test_letters_only(self):
        self.assertFalse(is_strong("CorrectHorse"))

    def test_short(self):
        self.assertFalse(is_strong("Ab1"))

    def test_special(self):
        self.assertTrue(has_special("a?"))

    def test_complaints(self):
        self.assertEqual(complaints("abc"), ["too short", "no capital"])
