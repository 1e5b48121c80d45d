"""Hidden check of toolbox__minitpl-1."""

import unittest

from minitpl import render


class Check(unittest.TestCase):
    def test_quotes(self):
        self.assertEqual(render('{{ name | default("no, thanks") }}'), "no, thanks")
        self.assertEqual(render('{{ name | default("a|b)") | upper }}'), "A|B)")
        self.assertEqual(render('{{ "}}" }}{{ "{{ x }}" }}'), "}}{{ x }}")
        self.assertEqual(render('{% if a == "%}" %}yes{% endif %}', a="%}"), "yes")
        self.assertEqual(render('{% if a == "x and y" or b %}yes{% endif %}', a="x and y"), "yes")
        self.assertEqual(render('{% if a == "x <= y" %}yes{% endif %}', a="x <= y"), "yes")
        self.assertEqual(render("{{ xs | join(', ') }}", xs=[1, 2]), "1, 2")

    def test_text_quotes(self):
        self.assertEqual(render("it's {{ x }}, isn't it {# don't #}?", x=1), "it's 1, isn't it ?")

    def test_for(self):
        source = "{% for x in xs %}{{ loop.index }}{{ x }}{% else %}none{% endfor %}[{{ x }}{{ loop }}]"
        self.assertEqual(render(source, xs=["a", "b"]), "1a2b[]")
        self.assertEqual(render(source, xs=[]), "none[]")
        self.assertEqual(render(source), "none[]")
        self.assertEqual(render(source, xs=(c for c in "ab"), x="X"), "1a2b[X]")

    def test_nested(self):
        source = (
            "{% for a in n %}{% for b in n %}{{ loop.index }}{% endfor %}({{ loop.index }}"
            "{% if loop.last %}!{% endif %}){% endfor %}"
        )
        self.assertEqual(render(source, n=[1, 2]), "12(1)12(2!)")
        self.assertEqual(render("{% for x in n %}{% if loop.last %}{{ x }}{% endif %}{% endfor %}", n=iter("abc")), "c")

    def test_precedence(self):
        source = "{% if a or b and c %}yes{% else %}no{% endif %}"
        self.assertEqual(render(source, a=True, b=False, c=False), "yes")
        self.assertEqual(render(source, a=False, b=True, c=False), "no")
        self.assertEqual(render("{% if not a and b %}yes{% else %}no{% endif %}", a=False, b=False), "no")
        self.assertEqual(render("{% if not n == 1 %}yes{% else %}no{% endif %}", n=1), "no")

    def test_filters(self):
        self.assertEqual(render("{{ t | truncate(10) }}", t="abcdefghijklmnop"), "abcdefg...")
        self.assertEqual(render("{{ t | truncate(16) }}", t="abcdefghijklmnop"), "abcdefghijklmnop")
        self.assertEqual(render("{{ t | truncate(5, '!') }}", t="abcdefgh"), "abcd!")
        self.assertEqual(render("{{ 0 | default('x') }}{{ false | default('x') }}{{ '' | default('x') }}"), "0False")
        self.assertEqual(render("{{ none | default('x') }}{{ a.b | default('y') }}"), "xy")

    def test_values(self):
        self.assertEqual(render("[{{ none }}{{ x }}]{{ false }}{{ 0 }}", x=None), "[]False0")
        self.assertEqual(render("{% if n < 3 %}yes{% else %}no{% endif %}"), "no")
        self.assertEqual(render("{% if n >= 3 %}yes{% else %}no{% endif %}"), "no")
        self.assertEqual(render("[{{ xs.7 }}{{ xs.0 }}]", xs=[1]), "[1]")

    def test_context_kept(self):
        items = {"x": 1}
        render("{% for x in xs %}{% endfor %}", xs=[1], **items)
        self.assertEqual(items, {"x": 1})


if __name__ == "__main__":
    unittest.main()
