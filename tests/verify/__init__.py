"""Tests of the acceptance rules."""
