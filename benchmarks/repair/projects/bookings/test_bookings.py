import unittest

from bookings import Room


class RoomTest(unittest.TestCase):
    def test_book(self):
        room = Room()
        self.assertTrue(room.book(9, 11))
        self.assertFalse(room.book(10, 12))
        self.assertTrue(room.book(11, 12))

    def test_hours(self):
        room = Room()
        room.book(9, 11)
        self.assertEqual(room.hours(), 2)

    def test_empty_booking(self):
        with self.assertRaises(ValueError):
            Room().book(9, 9)

    def test_gaps(self):
        room = Room()
        room.book(10, 12)
        self.assertEqual(room.gaps(), [(8, 10), (12, 18)])
