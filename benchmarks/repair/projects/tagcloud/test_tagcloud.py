import unittest

import tagcloud

ONE = [{"tags": ["python", "tests"]}, {"tags": ["python"]}]
TWO = [{"tags": ["cooking"]}]


class TagsTest(unittest.TestCase):
    def test_collect_one(self):
        self.assertEqual(tagcloud.collect(ONE), ["python", "tests"])

    def test_collect_two(self):
        self.assertEqual(tagcloud.collect(TWO), ["cooking"])

    def test_weights(self):
        self.assertEqual(tagcloud.weights(ONE), {"python": 2, "tests": 1})

    def test_cloud(self):
        self.assertEqual(tagcloud.cloud(ONE, 4), {"python": 4, "tests": 2})
