"""The rules of ``.gitignore``, for folders without git."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a ``.gitignore``."""

    pattern: re.Pattern[str]
    negated: bool
    folders_only: bool


class IgnoreRules:
    """What the ``.gitignore`` files from the root down to one folder say; the last rule that matches decides.

    Args:
        rules: of this folder and the ones above it, outermost first; each with the folder that it is relative to.
    """

    def __init__(self, rules: Sequence[tuple[str, Rule]] = ()) -> None:
        self._rules = tuple(rules)

    def within(self, folder: str, text: str) -> IgnoreRules:
        """With the file of a folder below, ``folder`` being ``""`` for the root, else a path that ends in /."""
        more = [(folder, rule) for line in text.splitlines() if (rule := parse(line)) is not None]
        return IgnoreRules((*self._rules, *more)) if more else self

    def ignores(self, path: str, *, is_folder: bool) -> bool:
        """Whether a path relative to the root, with /, is left out. That its folders are not is for the caller."""
        for folder, rule in reversed(self._rules):
            if rule.folders_only and not is_folder:
                continue
            if path.startswith(folder) and rule.pattern.fullmatch(path[len(folder) :]):
                return not rule.negated
        return False


def parse(line: str) -> Rule | None:
    """A line's rule; None for a comment or an empty line."""
    text = re.sub(r"(?<!\\) +$", "", line.rstrip("\r\n"))
    if not text or text.startswith("#"):
        return None
    negated = text.startswith("!")
    text = text[negated:]
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    if not text:
        return None
    anchored = "/" in text  # anywhere but at the end: relative to the folder of the file
    expression = _expression(text.lstrip("/"))
    return Rule(
        re.compile(expression if anchored else f"(?:.*/)?{expression}", re.DOTALL), negated, folders_only
    )


def _expression(glob: str) -> str:
    """A regular expression of a pattern: ``*`` and ``?`` stop at /, ``**`` between slashes does not."""
    out, at = "", 0
    while at < len(glob):
        char = glob[at]
        at += 1
        if char == "*":
            stars = 1
            while at < len(glob) and glob[at] == "*":
                stars, at = stars + 1, at + 1
            before = at - stars == 0 or glob[at - stars - 1] == "/"
            if stars == 2 and before and at == len(glob):
                out += ".+"
            elif stars == 2 and before and glob[at] == "/":
                out, at = out + "(?:.*/)?", at + 1
            else:
                out += "[^/]*"
        elif char == "?":
            out += "[^/]"
        elif char == "[" and (end := glob.find("]", at + 1 + (glob[at : at + 1] in {"!", "^"}))) >= 0:
            inner = glob[at:end].replace("\\", r"\\")
            if inner[0] in "!^":
                inner = f"^/{inner[1:]}"
            out, at = f"{out}(?!/)[{inner}]", end + 1
        elif char == "\\" and at < len(glob):
            out, at = out + re.escape(glob[at]), at + 1
        else:
            out += re.escape(char)
    return out
