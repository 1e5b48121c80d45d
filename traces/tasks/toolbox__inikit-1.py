"""Hidden check of toolbox__inikit-1."""

import unittest

import inikit
from inikit import InterpolationError, loads


def one(text, key="v", section=""):
    return loads(text).get(section, key)


class Check(unittest.TestCase):
    def test_escaped_quotes(self):
        self.assertEqual(one('v = "say \\"hi\\" # loudly"\n'), 'say "hi" # loudly')
        self.assertEqual(one('v = "a\\\\" # comment\n'), "a\\")
        self.assertEqual(one("v = 'a\\' # comment\n"), "a\\")
        self.assertEqual(one('v = ["a \\", b", "c"]\n'), ['a ", b', "c"])
        self.assertEqual(one('v = ["a \\"] b",\n "c"]\n'), ['a "] b', "c"])

    def test_list_comments(self):
        text = 'v = [\n  "a",   # primary\n  # "b" is off, see [ops-17]\n\n  ; more ]\n  "c", ; last\n]\nw = 1\n'
        self.assertEqual(one(text), ["a", "c"])
        self.assertEqual(one(text, "w"), 1)
        self.assertEqual(one('v = [ # all\n  "#1",\n  [1, 2], # pair\n]\n'), ["#1", [1, 2]])

    def test_dollar(self):
        self.assertEqual(one("v = $${HOME}\n"), "${HOME}")
        self.assertEqual(one("a = 1\nv = $$${a} $$$${a}\n"), "$1 $${a}")
        self.assertEqual(one("a = $$x\nv = ${a}${a}\n"), "$x$x")
        self.assertEqual(one("v = 5$ and $$\n"), "5$ and $")

    def test_cycles(self):
        config = loads("a = ${b}\nb = ${c}\nc = ${b}\nd = ${e} ${e}\ne = 1\n[s]\nx = ${:a}\ny = [${y}]\n")
        for key in "abc":
            with self.assertRaises(InterpolationError):
                config.get("", key)
        for key in "xy":
            with self.assertRaises(InterpolationError):
                config.get("s", key)
        self.assertEqual(config.get("", "d"), "1 1")

    def test_fallback_cycle(self):
        config = loads("name = demo\n[s]\nname = ${:name}-s\nt = ${name}\n")
        self.assertEqual(config.get("s", "name"), "demo-s")
        self.assertEqual(config.get("s", "t"), "demo-s")

    def test_none(self):
        self.assertEqual(one("a = none\nv = x${a}\n")[:1], "x")
        with self.assertRaisesRegex(InterpolationError, "unknown reference"):
            one("v = ${nothing}\n")


if __name__ == "__main__":
    unittest.main()
