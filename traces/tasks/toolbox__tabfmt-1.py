"""Hidden check of toolbox__tabfmt-1."""

import contextlib
import io
import unittest

from tabfmt import Table, parse_csv, parse_markdown, render_markdown, render_plain
from tabfmt.cli import main


def run(args, text):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stderr(err):
        status = main(args, stdin=io.StringIO(text), stdout=out)
    return status, out.getvalue(), err.getvalue()


class Check(unittest.TestCase):
    def test_model(self):
        self.assertEqual(Table(["a", "b"], []).align, [None, None])
        self.assertNotEqual(Table(["a"], []), Table(["a"], [], align=["right"]))
        for align in (["left"], ["left", "middle"], ["left", "left", "left"]):
            with self.assertRaises(ValueError):
                Table(["a", "b"], [], align=align)

    def test_markdown(self):
        text = (
            "| a    |   bb |  cc  | d   |\n"
            "| :--- | ---: | :--: | --- |\n"
            "| left |    1 |  x   | y   |\n"
            "| l    | 1000 | long | z   |\n"
        )
        table = parse_markdown(text)
        self.assertEqual(table.align, ["left", "right", "center", None])
        self.assertEqual(render_markdown(table), text)
        self.assertEqual(
            render_plain(table),
            "a       bb   cc   d\n----  ----  ----  -\nleft     1   x    y\nl     1000  long  z\n",
        )

    def test_narrow_rule(self):
        table = Table(["a", "b", "c"], [], align=["left", "right", "center"])
        self.assertEqual(render_markdown(table).splitlines()[1], "| :-- | --: | :-: |")

    def test_wide(self):
        table = Table(["a", "b"], [["日本", "1"], ["e\u0301te\u0301", "2"]], align=["right", None])
        self.assertEqual(
            render_markdown(table),
            "|    a | b   |\n| ---: | --- |\n| 日本 | 1   |\n|  e\u0301te\u0301 | 2   |\n",
        )

    def test_pipes(self):
        table = Table(["a|b"], [["x | y\nz"], ["\\"]])
        text = render_markdown(table)
        self.assertIn("| a\\|b ", text)
        self.assertIn("x \\| y<br>z", text)
        self.assertEqual(parse_markdown("| a\\|b |\n|---|\n| \\| |\n"), Table(["a|b"], [["|"]]))
        self.assertIn("x | y z", render_plain(table))

    def test_option(self):
        status, out, _ = run(["--align", "r-", "--to", "plain"], "a,b\n1,2\n1000,3\n")
        self.assertEqual((status, out), (0, "   a  b\n----  -\n   1  2\n1000  3\n"))
        for align in ("r", "rrr", "rx"):
            status, out, err = run(["--align", align], "a,b\n1,2\n")
            self.assertEqual((status, out), (2, ""))
            self.assertTrue(err.startswith("tabfmt: "), err)

    def test_auto(self):
        text = 'n,m,t,e,p\n"1,234",-1.5,1,,5%\n+7,,x,,10.25%\n'
        _, out, _ = run(["--align", "auto"], text)
        self.assertEqual(parse_markdown(out).align, ["right", "right", None, None, "right"])

    def test_source_kept(self):
        _, out, _ = run(["--from", "markdown"], "|a|b|\n|--:|---|\n|1|2|\n")
        self.assertEqual(parse_markdown(out).align, ["right", None])
        self.assertEqual(parse_csv("a\n1\n").align, [None])


if __name__ == "__main__":
    unittest.main()
