"""Parses and renders templates."""

import re

from .errors import TemplateError
from .expressions import condition, evaluate
from .lexer import pieces

_FOR = re.compile(r"for\s+([A-Za-z_]\w*)\s+in\s+(.+)\Z", re.DOTALL)


class Text:
    def __init__(self, text):
        self.text = text

    def render(self, context, out):
        out.append(self.text)


class Output:
    def __init__(self, expression, line):
        self.expression = expression
        self.line = line

    def render(self, context, out):
        out.append(str(evaluate(self.expression, context, self.line)))


class If:
    """Branches of condition (None for else) and nodes."""

    def __init__(self):
        self.branches = []

    def render(self, context, out):
        for test, line, nodes in self.branches:
            if test is None or condition(test, context, line):
                for node in nodes:
                    node.render(context, out)
                return


class For:
    def __init__(self, name, expression, line):
        self.name = name
        self.expression = expression
        self.line = line
        self.body = []
        self.otherwise = []

    def render(self, context, out):
        items = evaluate(self.expression, context, self.line)
        for number, item in enumerate(items):
            context[self.name] = item
            context["loop"] = {"index": number, "first": number == 0, "last": number == len(items) - 1}
            for node in self.body:
                node.render(context, out)
        for node in self.otherwise:
            node.render(context, out)


class Parser:
    def __init__(self, source):
        self.pieces = pieces(source)
        self.position = 0

    def nodes(self, ends, opener=None):
        """Nodes up to one of the end words; returns them and the tag that ended them."""
        result = []
        while self.position < len(self.pieces):
            piece = self.pieces[self.position]
            self.position += 1
            if piece.kind == "text":
                result.append(Text(piece.text))
            elif piece.kind == "output":
                result.append(Output(piece.text, piece.line))
            else:
                word = piece.text.split(None, 1)[0] if piece.text else ""
                if word in ends:
                    return result, piece
                result.append(self.tag(word, piece))
        if ends:
            raise TemplateError(f"expected {ends[-1]!r} for {opener.text!r}", opener.line)
        return result, None

    def tag(self, word, piece):
        if word == "if":
            return self.if_tag(piece)
        if word == "for":
            return self.for_tag(piece)
        raise TemplateError(f"unknown tag {piece.text!r}", piece.line)

    def if_tag(self, piece):
        node = If()
        test = piece.text[2:]
        opener = piece
        line = piece.line
        while True:
            ends = ("elif", "else", "endif") if test is not None else ("endif",)
            body, end = self.nodes(ends, opener)
            node.branches.append((test, line, body))
            line = end.line
            if end.text.startswith("elif"):
                test = end.text[4:]
            elif end.text == "else":
                test = None
            else:
                return node

    def for_tag(self, piece):
        match = _FOR.match(piece.text)
        if match is None:
            raise TemplateError(f"expected 'for NAME in LIST', got {piece.text!r}", piece.line)
        node = For(match.group(1), match.group(2), piece.line)
        node.body, end = self.nodes(("else", "endfor"), piece)
        if end.text == "else":
            node.otherwise, end = self.nodes(("endfor",), piece)
        return node


class Template:
    """A parsed template."""

    def __init__(self, source):
        self.root, _ = Parser(source).nodes(())

    def render(self, **context):
        """The text of the template with these names."""
        out = []
        for node in self.root:
            node.render(context, out)
        return "".join(out)


def render(source, **context):
    """Parse and render in one call."""
    return Template(source).render(**context)
