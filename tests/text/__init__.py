"""Tests of tokenizers and rendering."""
