"""The command line: QUANTITY TARGET."""

import sys

from .convert import convert, format_number, parse_quantity
from .errors import UnitError
from .parser import parse_unit


def main(argv):
    if len(argv) != 2:
        print("usage: unitconv QUANTITY TARGET", file=sys.stderr)
        return 2
    try:
        value, unit = parse_quantity(argv[0])
        result = convert(value, unit, parse_unit(argv[1]))
    except UnitError as error:
        print(f"unitconv: {error}", file=sys.stderr)
        return 2
    print(f"{format_number(result)} {argv[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
