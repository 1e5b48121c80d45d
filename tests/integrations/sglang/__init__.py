"""Drafting inside SGLang."""
