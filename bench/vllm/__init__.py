"""vLLM with and without drafts: checks end to end, and how fast."""
