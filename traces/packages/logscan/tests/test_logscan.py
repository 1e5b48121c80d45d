import io
import os
import unittest
from datetime import datetime

from logscan import count_by, durations, percentile, read_records
from logscan.cli import main

SAMPLE = os.path.join(os.path.dirname(__file__), "data", "sample.log")
LINES = [
    "2024-03-01T12:00:07Z INFO api.web GET /users/17 200 12.5ms\n",
    "2024-03-01T12:00:41Z DEBUG api.cache miss users:18\n",
    "2024-03-01T12:01:02Z INFO api.web POST /orders 201 48ms\n",
]


class RecordsTest(unittest.TestCase):
    def test_read(self):
        records = list(read_records(LINES))
        self.assertEqual(len(records), 3)
        first = records[0]
        self.assertEqual(first.time.replace(tzinfo=None), datetime(2024, 3, 1, 12, 0, 7))
        self.assertEqual((first.level, first.logger), ("INFO", "api.web"))
        self.assertEqual(first.text, "GET /users/17 200 12.5ms")


class StatsTest(unittest.TestCase):
    def test_count_by(self):
        self.assertEqual(count_by(read_records(LINES), "level"), [("INFO", 2), ("DEBUG", 1)])

    def test_durations(self):
        self.assertEqual(durations(read_records(LINES)), [12.5, 48.0])

    def test_percentile(self):
        values = [30.0, 10.0, 20.0]
        self.assertEqual(percentile(values, 50), 20.0)
        self.assertEqual(percentile(values, 99), 30.0)
        with self.assertRaises(ValueError):
            percentile([], 50)


class CommandTest(unittest.TestCase):
    def test_summary(self):
        out = io.StringIO()
        self.assertEqual(main([SAMPLE], stdout=out), 0)
        self.assertIn("records: 9\n", out.getvalue())

    def test_missing_file(self):
        self.assertEqual(main(["no/such.log"], stdout=io.StringIO()), 2)


if __name__ == "__main__":
    unittest.main()
