"""Writes a configuration back as text."""

from .values import Literal


def format_value(value):
    """The text of one value."""
    if value is None:
        return "none"
    if value is True:
        return "yes"
    if value is False:
        return "no"
    if isinstance(value, list):
        return "[" + ", ".join(format_value(item) for item in value) + "]"
    if isinstance(value, Literal):
        return f"'{value}'"
    if isinstance(value, str):
        if " " in value:
            return f'"{value}"'
        return value
    return str(value)


def dumps(config):
    """The whole configuration as INI text; loads() of it gives an equal configuration."""
    lines = []
    for name in ["", *config.sections()]:
        if name:
            if lines:
                lines.append("")
            lines.append(f"[{name}]")
        for key in config.keys(name):
            lines.append(f"{key} = {format_value(config.raw(name, key))}")
    return "\n".join(lines) + "\n"
