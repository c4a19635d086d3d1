"""Bookings of a room: from an hour up to, not including, another."""


class Room:
    def __init__(self):
        self.bookings = []

    def is_free(self, start, end):
        return all(end <= other_start or start >= other_end for other_start, other_end in self.bookings)

    def book(self, start, end):
        if start > end:
            raise ValueError("a booking ends after it starts")
        if not self.is_free(start, end):
            return False
        self.bookings.append((start, end))
        return True

    def hours(self):
        return sum(end - start for start, end in self.bookings)

    def gaps(self, opens=8, closes=18):
        free = []
        at = opens
        for start, end in sorted(self.bookings):
            if start > at:
                free.append((at, start))
            at = max(at, end)
        if at < closes:
            free.append((at, closes))
        return free
