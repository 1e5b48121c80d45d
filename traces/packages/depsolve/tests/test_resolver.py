import unittest

from depsolve import Index, ResolutionError, resolve


class ResolverTest(unittest.TestCase):
    def test_newest(self):
        index = Index()
        index.add("web", "1.0.0", {"json": "*"})
        index.add("web", "2.0.0", {"json": ">=1.0,<2.0"})
        index.add("json", "1.4.2")
        index.add("json", "2.0.0")
        self.assertEqual(resolve(index, {"web": "*"}), {"json": "1.4.2", "web": "2.0.0"})

    def test_prerelease_only_when_named(self):
        index = Index.from_json('{"a": {"1.0.0": {}, "2.0.0-rc1": {}}}')
        self.assertEqual(resolve(index, {"a": "*"}), {"a": "1.0.0"})
        self.assertEqual(resolve(index, {"a": ">=2.0.0-rc1"}), {"a": "2.0.0-rc1"})

    def test_nothing_fits(self):
        index = Index.from_json('{"a": {"1.0.0": {}}}')
        with self.assertRaisesRegex(ResolutionError, "no version of a fits: root requires a >=2"):
            resolve(index, {"a": ">=2"})


if __name__ == "__main__":
    unittest.main()
