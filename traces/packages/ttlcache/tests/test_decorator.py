import unittest

from ttlcache import cached


class DecoratorTest(unittest.TestCase):
    def test_calls_once(self):
        calls = []

        @cached(ttl=10.0)
        def double(x):
            """Twice x."""
            calls.append(x)
            return 2 * x

        self.assertEqual([double(2), double(2), double(3)], [4, 4, 6])
        self.assertEqual(calls, [2, 3])
        self.assertEqual(double.__doc__, "Twice x.")

    def test_uncached(self):
        @cached()
        def one():
            return 1

        self.assertEqual(one.uncached(), 1)
        self.assertEqual(len(one.cache), 0)


if __name__ == "__main__":
    unittest.main()
