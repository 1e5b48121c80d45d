"""The command line."""

import argparse
import sys

from .records import LEVELS, read_records
from .report import summary, timeline


def build_parser():
    parser = argparse.ArgumentParser(prog="logscan", description="Summarise service logs.")
    parser.add_argument("file")
    parser.add_argument("--level", choices=LEVELS, help="leave out records below this level")
    parser.add_argument("--per-minute", action="store_true", help="records per minute instead of a summary")
    return parser


def main(argv=None, stdout=None):
    """Run the command; returns the exit status."""
    args = build_parser().parse_args(argv)
    stdout = stdout or sys.stdout
    try:
        with open(args.file, encoding="utf-8") as file:
            records = list(read_records(file))
    except OSError as error:
        print(f"logscan: {args.file}: {error.strerror}", file=sys.stderr)
        return 2
    if args.level:
        records = [record for record in records if record.level >= args.level]
    report = timeline if args.per_minute else summary
    print(report(records), file=stdout)
    return 0
