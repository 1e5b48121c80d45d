"""Indexes over token sequences."""
