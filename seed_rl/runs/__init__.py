"""One run: its directory and its processes."""
