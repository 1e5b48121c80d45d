"""Drafting inside another project's engine: what has no engine in it."""
