"""Drafting inside vLLM."""
