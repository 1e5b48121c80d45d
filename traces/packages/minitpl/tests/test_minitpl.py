import unittest

from minitpl import Template, TemplateError, render


class OutputTest(unittest.TestCase):
    def test_names(self):
        self.assertEqual(render("Hello {{ user.name }}!", user={"name": "Ada"}), "Hello Ada!")
        self.assertEqual(render("{{ items.1 }}", items=[1, 2]), "2")
        self.assertEqual(render("[{{ nothing }}]"), "[]")

    def test_filters(self):
        self.assertEqual(render("{{ name | upper }}", name="ada"), "ADA")
        self.assertEqual(render("{{ xs | join('-') }}", xs=[1, 2]), "1-2")
        self.assertEqual(render("{{ name | default('nobody') | title }}"), "Nobody")

    def test_comment(self):
        self.assertEqual(render("a{# not this #}b"), "ab")

    def test_strip(self):
        self.assertEqual(render("a  {{- x -}}  b", x=1), "a1b")


class TagTest(unittest.TestCase):
    def test_if(self):
        template = Template("{% if n == 1 %}one{% elif n == 2 %}two{% else %}many{% endif %}")
        self.assertEqual([template.render(n=n) for n in (1, 2, 3)], ["one", "two", "many"])

    def test_logic(self):
        self.assertEqual(render("{% if a and not b %}yes{% endif %}", a=True, b=False), "yes")

    def test_for(self):
        self.assertEqual(render("{% for x in xs %}{{ x }},{% endfor %}", xs=[1, 2]), "1,2,")


class ErrorTest(unittest.TestCase):
    def test_line(self):
        with self.assertRaisesRegex(TemplateError, "line 2: unknown tag 'foo'"):
            render("a\n{% foo %}")
        with self.assertRaisesRegex(TemplateError, "line 1: expected 'endif' for 'if a'"):
            render("{% if a %}x")
        with self.assertRaisesRegex(TemplateError, "line 1: unknown filter 'nope'"):
            render("{{ a | nope }}")


if __name__ == "__main__":
    unittest.main()
