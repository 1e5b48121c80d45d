"""Tokenizers and the rendering of messages to token ids."""
