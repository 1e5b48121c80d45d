"""The command line."""

import argparse
import sys

from .parse import parse_csv, parse_markdown
from .render import render_csv, render_markdown, render_plain

PARSERS = {"csv": parse_csv, "markdown": parse_markdown}
RENDERERS = {"csv": render_csv, "markdown": render_markdown, "plain": render_plain}


def build_parser():
    parser = argparse.ArgumentParser(prog="tabfmt", description="Convert tables.")
    parser.add_argument("file", nargs="?", help="input file; standard input when not given")
    parser.add_argument("--from", dest="source", choices=sorted(PARSERS), default="csv")
    parser.add_argument("--to", choices=sorted(RENDERERS), default="markdown")
    return parser


def main(argv=None, stdin=None, stdout=None):
    """Run the command; returns the exit status."""
    args = build_parser().parse_args(argv)
    stdout = stdout or sys.stdout
    if args.file:
        with open(args.file, encoding="utf-8", newline="") as file:
            text = file.read()
    else:
        text = (stdin or sys.stdin).read()
    try:
        table = PARSERS[args.source](text)
    except ValueError as error:
        print(f"tabfmt: {error}", file=sys.stderr)
        return 2
    stdout.write(RENDERERS[args.to](table))
    return 0
