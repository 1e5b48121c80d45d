"""Recorded agent loops: the trace format, its reader and writer, and importers."""
