import unittest

from lru_cache import Cache


class CacheTest(unittest.TestCase):
    def test_get(self):
        cache = Cache(2)
        cache.put("a", 1)
        self.assertEqual(cache.get("a"), 1)
        self.assertEqual(cache.get("b", 0), 0)

    def test_forgets_the_oldest(self):
        cache = Cache(2)
        for key in "abc":
            cache.put(key, key)
        self.assertNotIn("a", cache)
        self.assertIn("c", cache)

    def test_use_keeps(self):
        cache = Cache(2)
        cache.put("a", 1)
        cache.put("b", 2)
        cache.get("a")
        cache.put("c", 3)
        self.assertIn("a", cache)
        self.assertNotIn("b", cache)
