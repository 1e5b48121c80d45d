import unittest

from unitconv import UnitError, convert, parse_quantity, parse_unit


def to(quantity, target):
    value, unit = parse_quantity(quantity)
    return convert(value, unit, parse_unit(target))


class ConvertTest(unittest.TestCase):
    def test_simple(self):
        self.assertAlmostEqual(to("90 km/h", "m/s"), 25.0)
        self.assertAlmostEqual(to("12 in", "ft"), 1.0)
        self.assertAlmostEqual(to("2.5 kN", "N"), 2500.0)

    def test_compound(self):
        self.assertAlmostEqual(to("1.5 kW*h", "MJ"), 5.4)
        self.assertAlmostEqual(to("1 N", "kg*m/s^2"), 1.0)
        self.assertAlmostEqual(to("3 m^2", "cm^2"), 30000.0)

    def test_temperature(self):
        self.assertAlmostEqual(to("20 degC", "degF"), 68.0)
        self.assertAlmostEqual(to("0 K", "degC"), -273.15)

    def test_plain_number(self):
        self.assertAlmostEqual(to("3", "1"), 3.0)

    def test_brackets(self):
        self.assertAlmostEqual(to("1 J/(kg*K)", "m^2/(s^2*K)"), 1.0)


class ErrorTest(unittest.TestCase):
    def test_unknown(self):
        with self.assertRaisesRegex(UnitError, "unknown unit 'parsec'"):
            parse_unit("parsec")

    def test_dimension(self):
        with self.assertRaisesRegex(UnitError, r"cannot convert m to s"):
            to("1 m", "s")


if __name__ == "__main__":
    unittest.main()
