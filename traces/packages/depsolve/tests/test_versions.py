import unittest

from depsolve import Requirement, Version


class VersionTest(unittest.TestCase):
    def test_order(self):
        texts = ["1.10.0", "1.2.0", "1.2.0-rc1", "0.9.9", "1.2.0-beta"]
        ordered = [str(version) for version in sorted(Version(text) for text in texts)]
        self.assertEqual(ordered, ["0.9.9", "1.2.0-beta", "1.2.0-rc1", "1.2.0", "1.10.0"])

    def test_bad_version(self):
        with self.assertRaisesRegex(ValueError, "expected a version such as 1.2.3"):
            Version("1.2")


class RequirementTest(unittest.TestCase):
    def check(self, text, allowed, refused):
        requirement = Requirement(text)
        for version in allowed:
            self.assertTrue(requirement.allows(Version(version)), (text, version))
        for version in refused:
            self.assertFalse(requirement.allows(Version(version)), (text, version))

    def test_clauses(self):
        self.check("*", ["0.0.1", "9.9.9"], [])
        self.check(">=1.2,<2", ["1.2.0", "1.9.9"], ["1.1.9", "2.0.0"])
        self.check("!=1.5.0", ["1.5.1"], ["1.5.0"])
        self.check("==1.5.0", ["1.5.0"], ["1.5.1"])

    def test_caret_and_tilde(self):
        self.check("^1.2.3", ["1.2.3", "1.9.0"], ["1.2.2", "2.0.0"])
        self.check("^0.2.3", ["0.2.9"], ["0.3.0"])
        self.check("^0.0.3", ["0.0.3"], ["0.0.4"])
        self.check("~1.2.3", ["1.2.9"], ["1.3.0"])


if __name__ == "__main__":
    unittest.main()
