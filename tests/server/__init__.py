"""The server, through its clients."""
