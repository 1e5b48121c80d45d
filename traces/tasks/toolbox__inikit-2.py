"""Hidden check of toolbox__inikit-2."""

import math
import unittest

from inikit import Config, dumps, loads
from inikit.values import Literal, Plain


def again(value):
    config = Config()
    config.set("s", "k", value)
    text = dumps(config)
    back = loads(text)
    return config, back, text


class Check(unittest.TestCase):
    def test_strings(self):
        for text in (
            "8080", "-1", "1_000", "yes", "None", "none", "1.5", "", " a", "a ", "a b", 'say "hi"', "it's", "#x",
            "a #b", "a;b", "a ;b", "[x]", "[", "a,b", "a\nb", "a\tb", "a\\b", "a\\", "\\n", '"', "'", '"x"', "'x'",
            "inf", "nan", "a=b", "$$x", "${k}", "ü", "a\rb", "a\u2028b", "]",
        ):  # fmt: skip
            for value in (text, Plain(text), [text, Plain(text)], [[text], 1]):
                with self.subTest(value=value):
                    config, back, out = again(value)
                    self.assertEqual(config, back, out)
                    self.assertEqual(config.raw("s", "k"), back.raw("s", "k"))

    def test_literals(self):
        for text in ("${x}", "it's ${x}", "$", "a'b\"c", "\n${y}", "", "a\\${x}"):
            with self.subTest(text=text):
                config, back, out = again(Literal(text))
                self.assertEqual(config, back, out)
                self.assertEqual(back.get("s", "k"), text)

    def test_floats(self):
        for value in (1e22, 1e-7, 0.1, -0.5, math.inf, -math.inf, math.nan, 3.0):
            config, back, out = again(value)
            self.assertEqual(config, back, out)
            self.assertIsInstance(back.get("s", "k"), float)
        self.assertEqual(loads("a = -inf\n").get("", "a"), -math.inf)
        self.assertTrue(math.isnan(loads("a = nan\n").get("", "a")))

    def test_names(self):
        config = Config()
        for key in ("", " a", "a ", "a=b", "a\nb", "[a", "#a", ";a", "a #b", "a ;b"):
            with self.subTest(key=key), self.assertRaises(ValueError):
                config.set("s", key, 1)
        for name in ("a]b", "[a", "a\nb", " a", "a "):
            with self.subTest(name=name), self.assertRaises(ValueError):
                config.set(name, "a", 1)
            with self.subTest(name=name), self.assertRaises(ValueError):
                config.add_section(name)
        config.set("s", "a#b", 1)
        config.set("s", "a b", 2)
        self.assertEqual(loads(dumps(config)), config)

    def test_equal(self):
        self.assertEqual(loads("a = 1\nb = 2\n"), loads("b = 2\na = 1\n"))
        self.assertEqual(loads("[x]\n[y]\n"), loads("[y]\n[x]\n"))
        self.assertNotEqual(loads("[x]\n"), loads(""))
        for left, right in (("1", "1.0"), ("1", "yes"), ("[1]", "[yes]"), ("x", "y"), ("'$x'", '"$x"')):
            self.assertNotEqual(loads(f"a = {left}\n"), loads(f"a = {right}\n"))
        self.assertEqual(loads("a = 'x'\n"), loads('a = "x"\n'))
        self.assertEqual(loads("a = x\n"), loads('a = "x"\n'))
        self.assertNotEqual(loads("a = 1\n"), {"a": 1})


if __name__ == "__main__":
    unittest.main()
