"""Tests of the recorder: its file, its proxy, and what becomes of a recording."""
