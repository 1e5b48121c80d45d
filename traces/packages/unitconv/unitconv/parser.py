"""Parses unit expressions."""

import re

from .errors import UnitError
from .units import ONE, find

_TOKEN = re.compile(r"\s*(?:([A-Za-z]+)|(\d+)|([*/^()]))")


def tokenize(text):
    """Names, whole numbers and signs of a unit text."""
    result = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise UnitError(f"unexpected {text[position]!r} in {text!r}")
        result.append(match.group().strip())
        position = match.end()
    return result


class _Parser:
    def __init__(self, text):
        self.text = text
        self.tokens = tokenize(text)
        self.position = 0

    def peek(self):
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def take(self):
        token = self.peek()
        if token is None:
            raise UnitError(f"unexpected end of {self.text!r}")
        self.position += 1
        return token

    def product(self):
        left = self.power()
        sign = self.peek()
        if sign == "*":
            self.take()
            return left * self.product()
        if sign == "/":
            self.take()
            return left / self.product()
        return left

    def power(self):
        base = self.primary()
        if self.peek() == "^":
            self.take()
            return base ** int(self.take())
        return base

    def primary(self):
        token = self.take()
        if token == "(":
            inner = self.product()
            if self.take() != ")":
                raise UnitError(f"expected ')' in {self.text!r}")
            return inner
        if token == "1":
            return ONE
        if token[0].isalpha():
            return find(token)
        raise UnitError(f"expected a unit, got {token!r} in {self.text!r}")


def parse_unit(text):
    """The Unit of an expression such as kg*m/s^2."""
    parser = _Parser(text)
    unit = parser.product()
    if parser.peek() is not None:
        raise UnitError(f"unexpected {parser.peek()!r} in {text!r}")
    return unit
