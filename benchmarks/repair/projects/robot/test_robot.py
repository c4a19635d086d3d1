import unittest

from robot import EAST, WEST, Robot


class RobotTest(unittest.TestCase):
    def test_forward(self):
        self.assertEqual(Robot().follow("FF"), (0, 2))

    def test_right(self):
        robot = Robot()
        robot.right()
        self.assertEqual(robot.facing, EAST)

    def test_left(self):
        robot = Robot()
        robot.left()
        self.assertEqual(robot.facing, WEST)

    def test_path(self):
        self.assertEqual(Robot().follow("FRFFLF"), (2, 2))
