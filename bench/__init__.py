"""Measurements. Each module is a command: ``python -m bench.index``, ``python -m bench.replay_bars``."""
