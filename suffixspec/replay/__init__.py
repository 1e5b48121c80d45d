"""Replay of recorded agent loops without a model."""
