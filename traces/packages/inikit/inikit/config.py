"""The configuration object and its interpolation."""

import re

from .errors import InterpolationError, ParseError
from .lexer import Section, tokens
from .values import Literal, Plain, parse_value

_REFERENCE = re.compile(r"\$\{(?:([^:}]*):)?([^}]*)\}")
_MISSING = object()


class Config:
    """Sections of typed values; section "" is the fallback of all others."""

    def __init__(self):
        self._sections = {"": {}}

    def sections(self):
        """The names of all named sections, in file order."""
        return [name for name in self._sections if name]

    def keys(self, section=""):
        """The keys of one section, fallback not included."""
        return list(self._sections[section])

    def add_section(self, name):
        self._sections.setdefault(name, {})

    def set(self, section, key, value):
        self.add_section(section)
        self._sections[section][key] = value

    def raw(self, section, key, default=_MISSING):
        """The value as written, without interpolation."""
        for name in (section, ""):
            values = self._sections.get(name, {})
            if key in values:
                return values[key]
        if default is _MISSING:
            raise KeyError(f"{section}:{key}")
        return default

    def get(self, section, key, default=_MISSING):
        """The value with all references replaced."""
        value = self.raw(section, key, default)
        return self._expand(value, section, (section, key))

    def _expand(self, value, section, origin):
        if isinstance(value, list):
            return [self._expand(item, section, origin) for item in value]
        if isinstance(value, Literal) or not isinstance(value, Plain):
            return str(value) if isinstance(value, str) else value

        def replace(match):
            target = (match.group(1) if match.group(1) is not None else section, match.group(2))
            if target == origin:
                raise InterpolationError(f"{target[0]}:{target[1]} refers to itself")
            found = self.raw(*target, None)
            if found is None:
                raise InterpolationError(f"unknown reference ${{{match.group(0)[2:-1]}}}")
            return str(self._expand(found, target[0], origin))

        return _REFERENCE.sub(replace, value).replace("$$", "$")

    def as_dict(self):
        """All sections as plain dictionaries, references replaced."""
        return {
            name: {key: self.get(name, key) for key in values}
            for name, values in self._sections.items()
            if name or values
        }


def loads(text):
    """Parse a text."""
    config = Config()
    section = ""
    for token in tokens(text):
        if isinstance(token, Section):
            section = token.name
            config.add_section(section)
            continue
        if token.key in config.keys(section):
            raise ParseError(f"duplicate key {token.key!r}", token.line)
        config.set(section, token.key, parse_value(token.raw))
    return config


def load(path):
    """Parse a file."""
    with open(path, encoding="utf-8") as file:
        return loads(file.read())
