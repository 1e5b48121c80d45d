"""Hidden check of toolbox__minitpl-2."""

import unittest

from minitpl import Template, TemplateError, render


class Check(unittest.TestCase):
    def test_include(self):
        loader = {"row": "<{{ x }}>", "page": '{% for x in xs %}{% include "row" %}{% endfor %}'}
        self.assertEqual(render('{% include "page" %}', loader=loader, xs=[1, 2]), "<1><2>")
        self.assertEqual(render("{% include name %}", loader=loader.__getitem__, name="row", x=3), "<3>")
        text = '{% include "row" with x=1, y=user.name %}{{ x }}{{ y }}'
        self.assertEqual(render(text, loader=loader, user={"name": "a"}), "<1>")
        text = '{% include "row" with x="a, b=c" %}'
        self.assertEqual(render(text, loader=loader), "<a, b=c>")

    def test_include_does_not_leak(self):
        self.assertEqual(render('{% include "s" %}[{{ a }}]', loader={"s": "{% set a = 1 %}{{ a }}"}), "1[]")

    def test_include_errors(self):
        for loader in (None, {}):
            with self.assertRaisesRegex(TemplateError, "line 2") as caught:
                render('\n{% include "x" %}', loader=loader)
            self.assertIsNone(caught.exception.template)
        with self.assertRaises(TemplateError):
            render('{% include "a" %}', loader={"a": '{% include "b" %}', "b": '{% include "a" %}'})
        with self.assertRaisesRegex(TemplateError, "^bad: line 3: ") as caught:
            render('{% include "bad" %}', loader={"bad": "\n\n{{ x | nope }}"})
        self.assertEqual(caught.exception.template, "bad")
        with self.assertRaisesRegex(TemplateError, "^bad: line 1: "):
            render('{% include "bad" %}', loader={"bad": "{% if %"})

    def test_depth(self):
        source = '{% if n.0 %}x{% include "t" with n=n.1 %}{% endif %}'
        value = []
        for _ in range(20):
            value = [1, value]
        self.assertEqual(render('{% include "t" %}', loader={"t": source}, n=value), "x" * 20)

    def test_set(self):
        self.assertEqual(render("{% set a = name | upper %}{{ a }}", name="x"), "X")
        source = "{% set a = 0 %}{% for x in xs %}{{ a }}{% set a = x %}{{ a }}{% endfor %}{{ a }}"
        self.assertEqual(render(source, xs=[1, 2]), "01020")
        self.assertEqual(render("{% if true %}{% set a = 5 %}{% endif %}{{ a }}"), "5")
        self.assertEqual(render('{% set a = "x = y" %}{{ a }}'), "x = y")
        for name in ("a.b", "true", "false", "none", "and", "or", "not", "loop", "1a", ""):
            with self.subTest(name=name), self.assertRaises(TemplateError):
                Template("{% set " + name + " = 1 %}")

    def test_raw(self):
        self.assertEqual(render("{% raw %}{{ x }}{# c #}{% if %}{% endraw %}{{ x }}", x=1), "{{ x }}{# c #}{% if %}1")
        self.assertEqual(render("a {%- raw -%} b {%- endraw -%} c"), "abc")
        self.assertEqual(render("{% raw %} b {% endraw %}"), " b ")
        with self.assertRaisesRegex(TemplateError, "line 2"):
            render("\n{% raw %}x")

    def test_again(self):
        context = {"xs": [1], "d": {"k": 1}}
        template = Template("{% set q = 1 %}{% for x in xs %}{% set y = x %}{% endfor %}[{{ y }}]{{ q }}")
        self.assertEqual([template.render(**context), template.render(**context)], ["[]1", "[]1"])
        self.assertEqual(context, {"xs": [1], "d": {"k": 1}})


if __name__ == "__main__":
    unittest.main()
