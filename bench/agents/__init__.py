"""Real agents against the server: what they send, how much of it is reused, how much of their output is drafted."""
