"""Hidden check of toolbox__logscan-2."""

import contextlib
import io
import json
import os
import tempfile
import unittest

import logscan
from logscan.cli import main

LINES = """\
2024-03-01T12:00:07Z INFO api.web GET /users/17 200 12.5ms
2024-03-01T12:00:09Z INFO api.web GET /users/18/ 200 9.5ms
2024-03-01T12:00:10Z INFO api.web GET /users/19?full=1 500 11ms
2024-03-01T12:01:02Z INFO api.web POST /orders 201 0.048s
2024-03-01T12:01:03Z ERROR api.web GET / 503 1ms
2024-03-01T12:01:04Z INFO worker nothing to see
"""


def run(*args, text=LINES):
    out, err = io.StringIO(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "x.log")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        with contextlib.redirect_stderr(err):
            try:
                status = main([path, *args], stdout=out)
            except SystemExit as error:
                status = error.code
    return status, out.getvalue(), err.getvalue()


class Check(unittest.TestCase):
    def test_normalise(self):
        for path, expected in {
            "/users/17": "/users/:id",
            "/users/17/": "/users/:id",
            "/?a=1": "/",
            "/": "/",
            "/a/550e8400-e29b-41d4-a716-446655440000/b": "/a/:id/b",
            "/c/deadbeef": "/c/deadbeef",
            "/c/deadbee1": "/c/:id",
            "/c/DEADBEE1F": "/c/:id",
            "/c/abc1": "/c/abc1",
            "/v2/x": "/v2/x",
            "/-5": "/-5",
            "/a//7?x=/9": "/a//:id",
        }.items():
            self.assertEqual(logscan.normalise_path(path), expected, path)

    def test_table(self):
        status, out, _ = run("--by-path")
        self.assertEqual(status, 0)
        self.assertEqual(
            out,
            "method path                 count  errors   mean ms    max ms\n"
            "POST   /orders                  1       0      48.0      48.0\n"
            "GET    /users/:id               3       1      11.0      12.5\n"
            "GET    /                        1       1       1.0       1.0\n",
        )

    def test_json(self):
        status, out, _ = run("--by-path", "--json", "--top", "1")
        self.assertEqual(status, 0)
        expected = {"method": "POST", "path": "/orders", "count": 1, "errors": 0, "mean_ms": 48.0, "max_ms": 48.0}
        self.assertEqual(json.loads(out), [expected])
        self.assertIn('\n  {\n    "method": "POST"', out)

    def test_errors(self):
        for args in (["--json"], ["--by-path", "--top", "0"], ["--by-path", "--top", "x"]):
            status, out, err = run(*args)
            self.assertEqual((status, out), (2, ""), args)
            self.assertTrue(err)

    def test_empty(self):
        self.assertEqual(len(run("--by-path", text="")[1].splitlines()), 1)
        self.assertEqual(json.loads(run("--by-path", "--json", text="")[1]), [])

    def test_level(self):
        status, out, _ = run("--by-path", "--level", "ERROR")
        self.assertEqual((status, len(out.splitlines())), (0, 2))

    def test_function(self):
        rows = logscan.by_path(logscan.read_records(LINES.splitlines()))
        self.assertEqual([(r.method, r.path, r.count, r.errors) for r in rows][1], ("GET", "/users/:id", 3, 1))
        self.assertAlmostEqual(rows[1].mean, 11.0)
        self.assertAlmostEqual(rows[1].max, 12.5)


if __name__ == "__main__":
    unittest.main()
