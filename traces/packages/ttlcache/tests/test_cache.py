import unittest

from ttlcache import TTLCache


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


class CacheTest(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        self.cache = TTLCache(maxsize=2, ttl=10.0, clock=self.clock)

    def test_get_and_set(self):
        self.cache.set("a", 1)
        self.assertEqual(self.cache.get("a"), 1)
        self.assertEqual(self.cache.get("b", "nothing"), "nothing")

    def test_expiry(self):
        self.cache.set("a", 1)
        self.cache.set("b", 2, ttl=30.0)
        self.clock.now += 11
        self.assertIsNone(self.cache.get("a"))
        self.assertEqual(self.cache.get("b"), 2)

    def test_least_recently_used_goes_first(self):
        self.cache.set("a", 1)
        self.cache.set("b", 2)
        self.cache.get("a")
        self.cache.set("c", 3)
        self.assertEqual(self.cache.items(), [("a", 1), ("c", 3)])
        self.assertEqual(self.cache.stats.evicted, 1)

    def test_purge(self):
        self.cache.set("a", 1)
        self.cache.set("b", 2, ttl=30.0)
        self.clock.now += 11
        self.assertEqual(self.cache.purge(), 1)
        self.assertEqual(list(self.cache), ["b"])

    def test_delete(self):
        self.cache.set("a", 1)
        self.assertTrue(self.cache.delete("a"))
        self.assertFalse(self.cache.delete("a"))

    def test_bad_arguments(self):
        with self.assertRaises(ValueError):
            TTLCache(maxsize=0)
        with self.assertRaises(ValueError):
            TTLCache(ttl=0)

    def test_hit_rate(self):
        self.assertEqual(self.cache.stats.hit_rate, 0.0)
        self.cache.set("a", 1)
        self.cache.get("a")
        self.cache.get("z")
        self.assertEqual(self.cache.stats.hit_rate, 0.5)


if __name__ == "__main__":
    unittest.main()
