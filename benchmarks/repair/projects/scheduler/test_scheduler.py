import unittest

from scheduler import Scheduler


class SchedulerTest(unittest.TestCase):
    def setUp(self):
        self.scheduler = Scheduler()

    def test_empty(self):
        self.assertIsNone(self.scheduler.next())

    def test_arrival(self):
        self.scheduler.submit("a")
        self.scheduler.submit("b")
        self.assertEqual(self.scheduler.order(), ["a", "b"])

    def test_priority(self):
        self.scheduler.submit("low", 1)
        self.scheduler.submit("high", 9)
        self.scheduler.submit("also high", 9)
        self.assertEqual(self.scheduler.order(), ["high", "also high", "low"])

    def test_next(self):
        for priority in (1, 2, 3):
            self.scheduler.submit(f"job {priority}", priority)
        self.assertEqual([self.scheduler.next() for _ in range(3)], ["job 3", "job 2", "job 1"])
