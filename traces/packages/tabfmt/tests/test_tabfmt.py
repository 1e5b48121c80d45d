import io
import unittest

from tabfmt import Table, parse_csv, parse_markdown, render_csv, render_markdown, render_plain
from tabfmt.cli import main

FRUIT = Table(["name", "qty"], [["apple", "3"], ["fig", "12"]])


class ParseTest(unittest.TestCase):
    def test_csv(self):
        self.assertEqual(parse_csv("name,qty\napple,3\n\nfig,12\n"), FRUIT)

    def test_markdown(self):
        text = "| name | qty |\n|---|:--:|\n| apple | 3 |\n| fig | 12 |\n"
        self.assertEqual(parse_markdown(text), FRUIT)

    def test_markdown_without_rule(self):
        with self.assertRaisesRegex(ValueError, "expected a rule of 1 columns"):
            parse_markdown("a\nb\n")

    def test_short_and_long_rows(self):
        self.assertEqual(parse_csv("a,b\n1\n").rows, [["1", ""]])
        with self.assertRaisesRegex(ValueError, "expected at most 1 cells"):
            parse_csv("a\n1,2\n")


class RenderTest(unittest.TestCase):
    def test_markdown(self):
        expected = "| name  | qty |\n| ----- | --- |\n| apple | 3   |\n| fig   | 12  |\n"
        self.assertEqual(render_markdown(FRUIT), expected)

    def test_plain(self):
        self.assertEqual(render_plain(FRUIT), "name   qty\n-----  ---\napple  3\nfig    12\n")

    def test_csv(self):
        table = Table(["a"], [["x,y"], ['say "hi"']])
        self.assertEqual(render_csv(table), 'a\n"x,y"\n"say ""hi"""\n')


class CommandTest(unittest.TestCase):
    def test_convert(self):
        out = io.StringIO()
        status = main(["--to", "plain"], stdin=io.StringIO("a,b\n1,2\n"), stdout=out)
        self.assertEqual(status, 0)
        self.assertEqual(out.getvalue(), "a  b\n-  -\n1  2\n")


if __name__ == "__main__":
    unittest.main()
