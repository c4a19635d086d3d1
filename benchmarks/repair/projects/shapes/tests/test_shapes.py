import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from shapes.flat import Circle, Rectangle


class ShapesTest(unittest.TestCase):
    def test_rectangle(self):
        self.assertEqual(Rectangle("door", 1, 2).label(), "door: 2.00")

    def test_circle_area(self):
        self.assertAlmostEqual(Circle("coin", 2).area(), 12.566, places=3)

    def test_circle_label(self):
        self.assertEqual(Circle("coin", 1).label(), "coin: 3.14")
