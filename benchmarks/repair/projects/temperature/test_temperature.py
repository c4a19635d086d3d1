import unittest

import temperature as t


class TemperatureTest(unittest.TestCase):
    def test_boiling(self):
        self.assertEqual(t.to_fahrenheit(100), 212)

    def test_back(self):
        self.assertEqual(t.to_celsius(212), 100)

    def test_kelvin(self):
        self.assertEqual(t.to_kelvin(0), 273.15)

    def test_too_cold(self):
        with self.assertRaises(ValueError):
            t.to_kelvin(-300)

    def test_describe(self):
        self.assertEqual(t.describe(20), "20 C = 68.0 F = 293.15 K")
