"""Acceptance: which drafted tokens the target confirms."""
