import unittest

import inikit

SAMPLE = """\
; a comment
name = demo
[server]
host = "example.org"     # inline comment
port = 8080
debug = yes
ratio = .5
hosts = [
    "a.example.org",
    "b.example.org",
]
url = http://${host}:${port}/${name}
"""


class ConfigTest(unittest.TestCase):
    def setUp(self):
        self.config = inikit.loads(SAMPLE)

    def test_types(self):
        self.assertEqual(self.config.get("server", "host"), "example.org")
        self.assertEqual(self.config.get("server", "port"), 8080)
        self.assertIs(self.config.get("server", "debug"), True)
        self.assertEqual(self.config.get("server", "ratio"), 0.5)

    def test_list_over_lines(self):
        self.assertEqual(self.config.get("server", "hosts"), ["a.example.org", "b.example.org"])

    def test_interpolation(self):
        self.assertEqual(self.config.get("server", "url"), "http://example.org:8080/demo")

    def test_fallback(self):
        self.assertEqual(self.config.get("server", "name"), "demo")
        with self.assertRaises(KeyError):
            self.config.get("server", "nothing")

    def test_self_reference(self):
        config = inikit.loads("a = x${a}\n")
        with self.assertRaises(inikit.InterpolationError):
            config.get("", "a")

    def test_hash_in_quotes(self):
        config = inikit.loads('color = "#ff0000" # red\n')
        self.assertEqual(config.get("", "color"), "#ff0000")

    def test_errors_name_the_line(self):
        with self.assertRaisesRegex(inikit.ParseError, "line 2: expected 'key = value'"):
            inikit.loads("a = 1\nnonsense\n")
        with self.assertRaisesRegex(inikit.ParseError, "line 1: list is not closed"):
            inikit.loads("a = [1,\n2\n")
        with self.assertRaisesRegex(inikit.ParseError, "line 3: duplicate key 'a'"):
            inikit.loads("a = 1\n\na = 2\n")


if __name__ == "__main__":
    unittest.main()
