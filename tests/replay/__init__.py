"""Tests of the replay of recorded loops."""
