"""Units and the table of known ones."""

from .errors import UnitError

BASE = ("m", "kg", "s", "K", "A", "mol", "cd")


class Unit:
    """A factor to SI base units, an offset, and the exponents of the base units."""

    def __init__(self, factor, exponents, offset=0.0):
        self.factor = factor
        self.exponents = tuple(exponents)
        self.offset = offset

    def __mul__(self, other):
        pairs = zip(self.exponents, other.exponents)
        return Unit(self.factor * other.factor, (a + b for a, b in pairs))

    def __truediv__(self, other):
        pairs = zip(self.exponents, other.exponents)
        return Unit(self.factor / other.factor, (a - b for a, b in pairs))

    def __pow__(self, n):
        return Unit(self.factor**n, (a * n for a in self.exponents))

    def dimension(self):
        """The exponents as text, such as m*s^-2; "1" for a plain number."""
        parts = []
        for name, exponent in zip(BASE, self.exponents):
            if exponent == 1:
                parts.append(name)
            elif exponent:
                parts.append(f"{name}^{exponent}")
        return "*".join(parts) or "1"


def _dim(**exponents):
    return tuple(exponents.get(name, 0) for name in BASE)


ONE = Unit(1.0, _dim())

UNITS = {
    "m": Unit(1.0, _dim(m=1)),
    "in": Unit(0.0254, _dim(m=1)),
    "ft": Unit(0.3048, _dim(m=1)),
    "mi": Unit(1609.344, _dim(m=1)),
    "g": Unit(0.001, _dim(kg=1)),
    "lb": Unit(0.45359237, _dim(kg=1)),
    "s": Unit(1.0, _dim(s=1)),
    "min": Unit(60.0, _dim(s=1)),
    "h": Unit(3600.0, _dim(s=1)),
    "d": Unit(86400.0, _dim(s=1)),
    "K": Unit(1.0, _dim(K=1)),
    "degC": Unit(1.0, _dim(K=1), 273.15),
    "degF": Unit(5 / 9, _dim(K=1), 459.67),
    "A": Unit(1.0, _dim(A=1)),
    "mol": Unit(1.0, _dim(mol=1)),
    "cd": Unit(1.0, _dim(cd=1)),
    "Hz": Unit(1.0, _dim(s=-1)),
    "N": Unit(1.0, _dim(kg=1, m=1, s=-2)),
    "J": Unit(1.0, _dim(kg=1, m=2, s=-2)),
    "W": Unit(1.0, _dim(kg=1, m=2, s=-3)),
    "Pa": Unit(1.0, _dim(kg=1, m=-1, s=-2)),
    "V": Unit(1.0, _dim(kg=1, m=2, s=-3, A=-1)),
    "L": Unit(0.001, _dim(m=3)),
}

PREFIXES = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "c": 1e-2, "d": 1e-1, "k": 1e3, "M": 1e6, "G": 1e9}
PREFIXED = {"m", "g", "s", "A", "mol", "Hz", "N", "J", "W", "Pa", "V", "L", "K"}


def find(name):
    """The unit of a name, perhaps with a prefix."""
    prefix, rest = name[:1], name[1:]
    if prefix in PREFIXES and rest in UNITS:
        unit = UNITS[rest]
        return Unit(PREFIXES[prefix] * unit.factor, unit.exponents)
    if name in UNITS:
        return UNITS[name]
    raise UnitError(f"unknown unit {name!r}")
