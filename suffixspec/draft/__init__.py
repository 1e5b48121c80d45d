"""Drafters: what to propose next."""
