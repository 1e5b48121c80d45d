"""Hidden check of toolbox__unitconv-1."""

import contextlib
import io
import unittest

from unitconv import UnitError, convert, parse_quantity, parse_unit
from unitconv.__main__ import main


def to(quantity, target):
    value, unit = parse_quantity(quantity)
    return convert(value, unit, parse_unit(target))


def line(quantity, target):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = main([quantity, target])
    return status, out.getvalue().strip()


class Check(unittest.TestCase):
    def test_left_to_right(self):
        self.assertAlmostEqual(to("10 m/s/s", "m/s^2"), 10)
        self.assertAlmostEqual(to("6 J/kg*kg", "J"), 6)
        self.assertAlmostEqual(to("8 m/s/s*s*s/m", "1"), 8)
        self.assertAlmostEqual(to("1 J/(kg*K)", "m^2/(s^2*K)"), 1)

    def test_powers(self):
        self.assertAlmostEqual(to("1 s^-1", "Hz"), 1)
        self.assertAlmostEqual(to("4 kg*m^-1*s^-2", "Pa"), 4)
        self.assertAlmostEqual(to("1 cm^-2", "m^-2"), 1e4)
        self.assertAlmostEqual(to("5 m^0", "1"), 5)
        for text in ("m^2^3", "m^-", "m^x", "m^", "m^(2)", "m**2", "(m", "m)", "", "2", "m s"):
            with self.subTest(text), self.assertRaises(UnitError):
                parse_unit(text)

    def test_names(self):
        self.assertAlmostEqual(to("5 min", "s"), 300)
        self.assertAlmostEqual(to("1 cd", "cd"), 1)
        self.assertAlmostEqual(to("1 ft", "in"), 12)
        self.assertAlmostEqual(to("2 d", "h"), 48)
        self.assertAlmostEqual(to("1 mmol", "mol"), 1e-3)
        self.assertAlmostEqual(to("1 kPa", "Pa"), 1000)
        self.assertAlmostEqual(to("1 dm^3", "L"), 1)
        for text in ("kmin", "Mft", "mdegC", "kdegF", "km2x", "mkm", "ccd", "kd", "klb", "k"):
            with self.subTest(text), self.assertRaises(UnitError):
                parse_unit(text)

    def test_temperature(self):
        self.assertAlmostEqual(to("10 degC/s", "K/s"), 10)
        self.assertAlmostEqual(to("1 W/degC", "W/K"), 1)
        self.assertAlmostEqual(to("9 degF*m", "K*m"), 5)
        self.assertAlmostEqual(to("0 (degC)", "K"), 273.15)
        self.assertAlmostEqual(to("0 degC^1", "K"), 273.15)
        self.assertAlmostEqual(to("20 degC", "degF"), 68)
        self.assertAlmostEqual(to("1 mK", "K"), 1e-3)

    def test_numbers(self):
        self.assertAlmostEqual(to("1e3 m", "km"), 1)
        self.assertAlmostEqual(to(".5 m", "cm"), 50)
        self.assertAlmostEqual(to("-1.5E-3 m", "mm"), -1.5)
        self.assertAlmostEqual(to("1e3", "1"), 1000)
        self.assertAlmostEqual(to("5. m", "m"), 5)

    def test_format(self):
        self.assertEqual(line("1500000 m", "m"), (0, "1500000 m"))
        self.assertEqual(line("123456789 m", "m"), (0, "123457000 m"))
        self.assertEqual(line("0.00012345678 m", "m"), (0, "0.000123457 m"))
        self.assertEqual(line("90 km/h", "m/s"), (0, "25 m/s"))
        self.assertEqual(line("-0 m", "m"), (0, "0 m"))
        self.assertIn("e", line("1e15 m", "m")[1])
        self.assertIn("e", line("1e-7 m", "m")[1])

    def test_more_units(self):
        self.assertAlmostEqual(to("5 µm", "nm"), 5000)
        self.assertAlmostEqual(to("5 μs", "us"), 5)
        self.assertAlmostEqual(to("50 %", "1"), 0.5)
        self.assertAlmostEqual(to("0.5", "%"), 50)
        self.assertAlmostEqual(to("180 deg", "rad"), 3.141592653589793)


if __name__ == "__main__":
    unittest.main()
