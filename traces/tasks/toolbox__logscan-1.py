"""Hidden check of toolbox__logscan-1."""

import io
import unittest
from datetime import datetime, timedelta, timezone

from logscan import durations, per_minute, percentile, read_records
from logscan.cli import main

SAMPLE = "tests/data/sample.log"


def run(*args):
    out = io.StringIO()
    status = main(list(args), stdout=out)
    return status, out.getvalue()


class Check(unittest.TestCase):
    def setUp(self):
        with open(SAMPLE, encoding="utf-8") as file:
            self.records = list(read_records(file))

    def test_level(self):
        status, out = run(SAMPLE, "--level", "WARNING")
        self.assertEqual(status, 0)
        self.assertTrue(out.startswith("records: 3\n"), out)

    def test_percentile(self):
        self.assertEqual(percentile([40, 10, 30, 20], 50), 20)
        self.assertEqual(percentile([10, 20, 30, 40], 51), 30)
        self.assertEqual(percentile([10, 20], 100), 20)
        self.assertEqual(percentile([10, 20], 0), 10)
        self.assertEqual(percentile(list(range(1, 101)), 7), 7)
        self.assertEqual(percentile(list(range(1, 101)), 55), 55)
        self.assertEqual(percentile(list(range(1, 101)), 29), 29)
        self.assertEqual(percentile(list(range(1, 101)), 99), 99)

    def test_durations(self):
        self.assertEqual(durations(self.records), [12.5, 9.5, 48.0, 3.0, 1250.0, 11.0])

    def test_times(self):
        times = [record.time for record in self.records]
        self.assertTrue(all(time.utcoffset() == timedelta(0) for time in times))
        self.assertEqual(times[5], datetime(2024, 3, 1, 12, 1, 55, tzinfo=timezone.utc))
        self.assertEqual(times[8].microsecond, 900000)
        for fraction, expected in ((".5", 500000), (".123456", 123456), (".1234567", 123456)):
            record = next(read_records([f"2024-03-01T00:30:00{fraction}+05:30 INFO a b"]))
            self.assertEqual(record.time, datetime(2024, 2, 29, 19, 0, 0, expected, tzinfo=timezone.utc))

    def test_minutes(self):
        rows = [(f"{minute:%H:%M}", count) for minute, count in per_minute(self.records)]
        self.assertEqual(rows, [("12:00", 3), ("12:01", 3), ("12:02", 0), ("12:03", 0), ("12:04", 3)])
        self.assertEqual(per_minute([]), [])
        status, out = run(SAMPLE, "--per-minute")
        self.assertEqual((status, out.splitlines()[2]), (0, "2024-03-01 12:02     0"))

    def test_extra(self):
        self.assertEqual(
            self.records[6].extra,
            ["Traceback (most recent call last):", '  File "report.py", line 8, in build', "KeyError: 'total'"],
        )
        self.assertEqual(sum(len(record.extra) for record in self.records), 3)
        self.assertEqual(list(read_records(["lost\n"])), [])

    def test_levels(self):
        lines = [f"2024-03-01T12:00:00Z {level} a b" for level in ("warn", "Warning", "error", "NOTICE", "info")]
        self.assertEqual([r.level for r in read_records(lines)], ["WARNING", "WARNING", "ERROR", "NOTICE", "INFO"])

    def test_unknown_level(self):
        import os
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "x.log")
            with open(path, "w", encoding="utf-8") as file:
                file.write("2024-03-01T12:00:00Z NOTICE a b\n2024-03-01T12:00:00Z info a b\n")
            self.assertEqual(run(path)[0], 0)
            status, out = run(path, "--level", "ERROR")
            self.assertEqual((status, out.splitlines()[0]), (0, "records: 1"))
            self.assertIn("NOTICE", out)


if __name__ == "__main__":
    unittest.main()
