"""One run: its directory, its processes, its plan."""
