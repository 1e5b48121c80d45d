"""Hidden check of toolbox__ttlcache-1."""

import unittest

from ttlcache import TTLCache, cached


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Check(unittest.TestCase):
    def setUp(self):
        self.clock = Clock()
        self.cache = TTLCache(3, 10.0, clock=self.clock)

    def test_deadline(self):
        self.cache.set("a", 1)
        self.clock.now = 9.999
        self.assertEqual(self.cache.get("a"), 1)
        self.clock.now = 10.0
        self.assertIsNone(self.cache.get("a"))

    def test_views(self):
        self.cache.set("a", None)
        self.cache.set("b", 2, ttl=5)
        self.clock.now = 6
        self.assertEqual((len(self.cache), list(self.cache), self.cache.items()), (1, ["a"], [("a", None)]))
        self.assertIn("a", self.cache)
        self.assertNotIn("b", self.cache)
        self.assertFalse(self.cache.delete("b"))
        self.assertTrue(self.cache.delete("a"))
        stats = self.cache.stats
        self.assertEqual((stats.hits, stats.misses, stats.expired, stats.evicted), (0, 0, 0, 0))

    def test_views_are_no_use(self):
        for key in "abc":
            self.cache.set(key, 1)
        self.assertIn("a", self.cache)
        list(self.cache), len(self.cache), self.cache.items()
        self.cache.set("d", 1)
        self.assertEqual(list(self.cache), ["b", "c", "d"])

    def test_expired_read(self):
        self.cache.set("a", 1)
        self.clock.now = 20
        self.cache.get("a")
        self.assertEqual((self.cache.stats.misses, self.cache.stats.expired), (1, 1))

    def test_room(self):
        self.cache.set("a", 1)
        self.cache.set("b", 1, ttl=1)
        self.cache.set("c", 1)
        self.clock.now = 2
        self.cache.set("d", 1)
        self.assertEqual(list(self.cache), ["a", "c", "d"])
        self.assertEqual(self.cache.stats.evicted, 0)
        self.cache.set("e", 1)
        self.assertEqual(list(self.cache), ["c", "d", "e"])
        self.assertEqual(self.cache.stats.evicted, 1)

    def test_overwrite(self):
        for key in "abc":
            self.cache.set(key, 1)
        self.cache.set("a", 2)
        self.cache.set("d", 1)
        self.assertEqual(list(self.cache), ["c", "a", "d"])

    def test_ttl(self):
        for ttl in (0, -1):
            with self.assertRaises(ValueError):
                self.cache.set("a", 1, ttl=ttl)
        self.assertEqual(len(self.cache), 0)

    def test_cached(self):
        calls = []

        @cached(clock=self.clock)
        def f(*args, **kwargs):
            calls.append((args, kwargs))

        for call in (lambda: f(1), lambda: f(1.0), lambda: f(True), lambda: f(a=1, b=2), lambda: f(b=2, a=1)):
            call()
            call()
        self.assertEqual(len(calls), 4)
        f(("a", 1))
        f(a=1)
        f("a", 1)
        f(a=1.0)
        self.assertEqual(len(calls), 8)
        f((1, 2))
        f(1, 2)
        self.assertEqual(len(calls), 10)
        self.clock.now = 60.0
        f(1)
        self.assertEqual(len(calls), 11)


if __name__ == "__main__":
    unittest.main()
