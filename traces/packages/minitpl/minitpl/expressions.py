"""Expressions: names, literals, filters and conditions."""

import operator
import re

from .errors import TemplateError
from .filters import FILTERS

_CONSTANTS = {"true": True, "false": False, "none": None}
_COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
}
_NAME = re.compile(r"[A-Za-z_]\w*(\.\w+)*\Z")
_NUMBER = re.compile(r"-?\d+(\.\d+)?\Z")
_FILTER = re.compile(r"(\w+)(?:\((.*)\))?\Z")


class Undefined:
    """The value of an unknown name."""

    def __bool__(self):
        return False

    def __str__(self):
        return ""


UNDEFINED = Undefined()


def lookup(name, context):
    """The value of a dotted name."""
    first, *rest = name.split(".")
    value = context.get(first, UNDEFINED)
    for part in rest:
        if isinstance(value, dict):
            value = value.get(part, UNDEFINED)
        elif part.isdigit() and isinstance(value, (list, tuple)):
            value = value[int(part)] if int(part) < len(value) else UNDEFINED
        else:
            value = getattr(value, part, UNDEFINED)
    return value


def atom(text, context, line):
    """The value of a name or literal."""
    text = text.strip()
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    if _NUMBER.match(text):
        return float(text) if "." in text else int(text)
    if _NAME.match(text):
        return lookup(text, context)
    raise TemplateError(f"expected a name or a literal, got {text!r}", line)


def evaluate(text, context, line):
    """The value of an expression with filters."""
    first, *filters = text.split("|")
    value = atom(first, context, line)
    for part in filters:
        match = _FILTER.match(part.strip())
        if match is None or match.group(1) not in FILTERS:
            raise TemplateError(f"unknown filter {part.strip()!r}", line)
        arguments = []
        if match.group(2):
            arguments = [atom(item, context, line) for item in match.group(2).split(",")]
        value = FILTERS[match.group(1)](value, *arguments)
    return value


def condition(text, context, line):
    """True or False for the condition of an if."""
    for word, combine in ((" and ", all), (" or ", any)):
        if word in text:
            return combine(condition(part, context, line) for part in text.split(word))
    text = text.strip()
    if text.startswith("not "):
        return not condition(text[4:], context, line)
    for sign, compare in _COMPARE.items():
        if sign in text:
            left, right = text.split(sign, 1)
            return compare(evaluate(left, context, line), evaluate(right, context, line))
    return bool(evaluate(text, context, line))
