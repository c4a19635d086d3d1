import unittest

from thermostat import Thermostat


class ThermostatTest(unittest.TestCase):
    def test_cold(self):
        self.assertTrue(Thermostat(20).read(15))

    def test_warm(self):
        self.assertFalse(Thermostat(20).read(25))

    def test_stays_on_in_between(self):
        self.assertEqual(Thermostat(20).history([18, 20.5, 21.5]), "##.")

    def test_stays_off_in_between(self):
        self.assertEqual(Thermostat(20).history([22, 19.5, 18.5]), "..#")
