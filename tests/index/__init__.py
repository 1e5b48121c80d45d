"""Tests of the index: suffix tree, cursors, generations and n-grams against slow oracles."""
