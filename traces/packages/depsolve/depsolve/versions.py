"""Versions and requirements on them."""

import functools
import re

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.]+))?\Z")
_CLAUSE = re.compile(r"(==|!=|>=|<=|>|<|\^|~)\s*(\S+)\Z")


@functools.total_ordering
class Version:
    """Three numbers and perhaps a pre-release part."""

    def __init__(self, text):
        match = _VERSION.match(text)
        if match is None:
            raise ValueError(f"expected a version such as 1.2.3, got {text!r}")
        self.numbers = tuple(int(part) for part in match.groups()[:3])
        self.pre = match.group(4)
        self.text = text

    def _key(self):
        return (self.numbers, self.pre is None, self.pre or "")

    def __eq__(self, other):
        return isinstance(other, Version) and self._key() == other._key()

    def __lt__(self, other):
        return self._key() < other._key()

    def __hash__(self):
        return hash(self._key())

    def __str__(self):
        return self.text

    def __repr__(self):
        return f"Version({self.text!r})"


def pad(text):
    """Fill a short version such as 1 or 1.2 up to three numbers."""
    return text + ".0" * (2 - text.count(".")) if "-" not in text else text


def upper_bound(operator, text):
    """The first version above a ^ or ~ clause."""
    major, minor, patch = Version(pad(text)).numbers
    if operator == "~":
        return Version(f"{major}.{minor + 1}.0")
    if major:
        return Version(f"{major + 1}.0.0")
    if minor:
        return Version(f"0.{minor + 1}.0")
    return Version(f"0.0.{patch + 1}")


class Requirement:
    """A conjunction of clauses."""

    def __init__(self, text):
        self.text = text
        self.clauses = []
        for part in text.split(","):
            part = part.strip()
            if part == "*":
                continue
            match = _CLAUSE.match(part)
            if match is None:
                raise ValueError(f"expected a requirement such as >=1.2, got {part!r}")
            operator, bound = match.groups()
            if operator in "^~":
                self.clauses.append((">=", Version(pad(bound))))
                self.clauses.append(("<", upper_bound(operator, bound)))
            else:
                self.clauses.append((operator, Version(pad(bound))))

    def names_prerelease(self):
        return any(version.pre for _, version in self.clauses)

    def allows(self, version):
        """True when the version fulfils every clause."""
        tests = {
            "==": version.__eq__,
            "!=": version.__ne__,
            ">=": version.__ge__,
            "<=": version.__le__,
            ">": version.__gt__,
            "<": version.__lt__,
        }
        return all(tests[operator](bound) for operator, bound in self.clauses)

    def __str__(self):
        return self.text
