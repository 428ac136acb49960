"""Small real environments and agents, for tests and quick runs."""
