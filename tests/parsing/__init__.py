"""Tests of the parsing of outputs."""
